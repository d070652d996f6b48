"""TFJob, XGBoostJob, JAXJob, PaddleJob, and the base of MPIJob and PyTorchJob: a flat gang."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from kai_ray.podgrouper.build import build_group, pod_template, soft_template
from kai_ray.podgrouper.groups import Group, Member, SubGroup
from kai_ray.podgrouper.values import GroupError, Object, count, dig, mapping
from kai_ray.podgrouper.workload import Rule, Workload


@dataclass(frozen=True, slots=True)
class Replicas:
    """One replica type as it stands: `stated` is None where the field is missing."""

    kind: str
    stated: int | None
    template: Object

    @property
    def number(self) -> int:
        return self.stated or 0


def replica_specs(w: Workload, specs: str) -> list[Replicas]:
    """The replica types in the object's order."""
    found: list[Replicas] = []
    for kind, raw in mapping(w.subject, f"spec.{specs}").items():
        field = f"spec.{specs}.{kind}"
        if not isinstance(raw, dict):
            raise GroupError(field, "is not an object", "write replicas and template there")
        template = (
            pod_template(raw, "template", field) if w.planning else soft_template(raw, "template")
        )
        found.append(Replicas(kind, count(raw, "replicas", None, field), template))
    return found


def min_available(w: Workload) -> int | None:
    return count(w.subject, "spec.runPolicy.schedulingPolicy.minAvailable", None)


def all_replicas(w: Workload, specs: str, mandatory: Iterable[str]) -> int:
    """The sum of all replicas. A missing mandatory type, or a type of none, is refused."""
    if dig(w.subject, f"spec.{specs}") is None:
        raise GroupError(f"spec.{specs}", "is missing", "write the job's replicas there")
    found = replica_specs(w, specs)
    for kind in mandatory:
        if kind not in {r.kind for r in found}:
            raise GroupError(f"spec.{specs}.{kind}", "is missing", f"write a {kind} there")
    for replicas in found:
        if not replicas.stated:
            raise GroupError(
                f"spec.{specs}.{replicas.kind}.replicas",
                "is missing" if replicas.stated is None else "is 0",
                "write 1 or more",
            )
    return sum(r.number for r in found)


def minimum(w: Workload, specs: str, mandatory: Iterable[str]) -> int:
    """runPolicy's minAvailable, else all replicas."""
    stated = min_available(w)
    return all_replicas(w, specs, mandatory) if stated is None else stated


def members(w: Workload, specs: str) -> tuple[Member, ...]:
    return tuple(Member(r.kind.lower(), r.template, r.number) for r in replica_specs(w, specs))


def succeeded(w: Workload) -> dict[str, int]:
    """Pods that have ended well, by replica type in lower case; types without any are left out."""
    found: dict[str, int] = {}
    for kind, raw in mapping(w.subject, "status.replicaStatuses").items():
        number = count(raw, "succeeded", 0) if isinstance(raw, dict) else 0
        if number:
            found[kind.lower()] = number
    return found


def _less(group: SubGroup, number: int) -> SubGroup:
    if not number or group.min_member is None:
        return group
    return replace(group, min_member=max(0, group.min_member - number))


def kubeflow_group(
    w: Workload,
    min_member: int,
    pods: Iterable[Member],
    sub_groups: Iterable[SubGroup] = (),
    notes: Iterable[str] = (),
) -> Group:
    """A group whose queue and priority may stand in the job's own schedulingPolicy."""
    policy = "spec.runPolicy.schedulingPolicy"
    done = succeeded(w)
    if done:
        # What has succeeded is never made again: a pod that is replaced must not wait for it.
        min_member = max(0, min_member - sum(done.values()))
        sub_groups = [_less(s, done.get(s.name, 0)) for s in sub_groups]
    queue, priority = f"{policy}.queue", f"{policy}.priorityClass"
    return build_group(
        w,
        min_member=min_member,
        sub_groups=sub_groups,
        members=pods,
        native_queue=((queue, dig(w.subject, queue)),),
        native_priority=((priority, dig(w.subject, priority)),),
        notes=notes,
    )


def flat(specs: str, *mandatory: str) -> Callable[[Workload], list[Group]]:
    """The rule's function for a kind whose replicas lie under `spec.<specs>`."""

    def groups(w: Workload) -> list[Group]:
        return [kubeflow_group(w, minimum(w, specs, mandatory), members(w, specs))]

    return groups


def with_replicas(
    specs: str, numbers: Mapping[str, int] | None = None
) -> Callable[[Object], Object]:
    """What the operator fills in where a number is missing: `numbers` by type, else one pod."""

    def defaults(obj: Object) -> Object:
        stated = dig(obj, f"spec.{specs}")
        if not isinstance(stated, dict):
            return obj
        filled = {
            kind: {"replicas": (numbers or {}).get(kind, 1), **raw}
            if isinstance(raw, dict)
            else raw
            for kind, raw in stated.items()
        }
        return {**obj, "spec": {**obj["spec"], specs: filled}}

    return defaults


def flat_rule(specs: str, *mandatory: str) -> Rule:
    return Rule(flat(specs, *mandatory), defaults=with_replicas(specs))


TF_JOB = flat_rule("tfReplicaSpecs")
XGBOOST_JOB = flat_rule("xgbReplicaSpecs", "Master", "Worker")
JAX_JOB = flat_rule("jaxReplicaSpecs", "Worker")
PADDLE_JOB = flat_rule("paddleReplicaSpecs")

"""PyTorchJob: master and workers, an elastic minimum, and workers in segments."""

from __future__ import annotations

from collections.abc import Sequence

from kai_ray.api import labels as keys
from kai_ray.api import operator_defaults as operators
from kai_ray.podgrouper import topologies
from kai_ray.podgrouper.build import with_containers
from kai_ray.podgrouper.groups import LARGEST_TREE, Group, Member, SubGroup, Topology, too_many
from kai_ray.podgrouper.values import GroupError, Object, annotations_of, count, labels, number_in
from kai_ray.podgrouper.workload import Place, Rule, Workload

from .kubeflow import (
    Replicas,
    kubeflow_group,
    min_available,
    minimum,
    replica_specs,
    with_replicas,
)

SPECS = "pytorchReplicaSpecs"
MASTER, WORKER = "master", "worker"


def pytorch_groups(w: Workload) -> list[Group]:
    total = minimum(w, SPECS, ())
    elastic = count(w.subject, "spec.elasticPolicy.minReplicas", None)
    if elastic is not None and min_available(w) is None:
        total = elastic
    found = {r.kind.lower(): r for r in replica_specs(w, SPECS)}
    notes: list[str] = []
    tree: list[SubGroup] = []
    master, worker = found.get(MASTER), found.get(WORKER)
    masters = master.number if master else 0
    if master and masters:
        tree.append(SubGroup(MASTER, masters, topology=_kueue(w, master, notes)))
    if worker:
        tree += _workers(w, worker, max(0, total - masters), notes)
    members = tuple(
        Member(k, _as_made(k, r.template, waits=MASTER in found), r.number, subgroup=k)
        for k, r in found.items()
    )
    return [kubeflow_group(w, total, members, tree, notes)]


def _as_made(role: str, template: Object, *, waits: bool) -> Object:
    """The template with the operator's init container: workers wait for a master."""
    if role != WORKER or not waits:
        return template
    init = operators.container(operators.PYTORCH_INIT_CONTAINER, operators.PYTORCH_INIT_RESOURCES)
    return with_containers(template, "initContainers", [init])


def _kueue(w: Workload, replicas: Replicas, notes: list[str]) -> Topology | None:
    return topologies.kueue_topology(w, replicas.template, notes) or None


def _workers(w: Workload, worker: Replicas, floor: int, notes: list[str]) -> list[SubGroup]:
    size = _segment_size(w, worker)
    number = -(-worker.number // size) if size else 0
    if number > LARGEST_TREE:
        raise too_many(number, f"annotation {keys.SEGMENT_SIZE}")
    if not number:
        return [SubGroup(WORKER, floor, topology=_kueue(w, worker, notes))]
    needed = min(-(-floor // size), number)
    constraint = _segment_topology(w, worker)
    tree = [SubGroup(WORKER, min_sub_group=number)]
    for i in range(number):
        pods = min(size, worker.number - i * size)
        tree.append(
            SubGroup(
                f"{WORKER}-{i}",
                pods if i < needed else 0,
                parent=WORKER,
                topology=constraint,
            )
        )
    return tree


def _segment_size(w: Workload, worker: Replicas) -> int:
    """Pods of a segment, 0 where none is asked for: the pod's annotation, else the template's."""
    for words, obj in (("the pod", w.pod), ("the worker template", worker.template)):
        value = annotations_of(obj).get(keys.SEGMENT_SIZE)
        if value is not None:
            return number_in(value, f"annotation {keys.SEGMENT_SIZE} of {words}", least=1)
    return 0


def _segment_topology(w: Workload, worker: Replicas) -> Topology | None:
    """The segments' constraint: each part from the pod, else the template, else the job."""

    def stated(key: str) -> str:
        for obj in (w.pod, worker.template, w.subject):
            if value := annotations_of(obj).get(key):
                return value
        return ""

    found = Topology(
        stated(keys.TOPOLOGY),
        stated(keys.SEGMENT_TOPOLOGY_REQUIRED),
        stated(keys.SEGMENT_TOPOLOGY_PREFERRED),
    )
    return found if found.name and (found.required or found.preferred) else None


def place_replica(w: Workload, pod: Object, groups: Sequence[Group]) -> Place:
    group = groups[0]
    role = labels(pod).get(keys.TRAINING_REPLICA_TYPE, "").lower()
    names = {sub.name for sub in group.sub_groups}
    if role == WORKER and WORKER in {sub.parent for sub in group.sub_groups}:
        return Place(group.name, _segment(w, pod, names))
    return Place(group.name, role if role in names else None)


def _segment(w: Workload, pod: Object, names: set[str]) -> str:
    field = f"label {keys.TRAINING_REPLICA_INDEX} of the pod"
    index = number_in(labels(pod).get(keys.TRAINING_REPLICA_INDEX, ""), field, least=0)
    worker = next(r for r in replica_specs(w, SPECS) if r.kind.lower() == WORKER)
    name = f"{WORKER}-{index // _segment_size(w, worker)}"
    if name not in names:
        raise GroupError(field, f"is {index}, beyond the last segment", "raise the replicas")
    return name


RULE = Rule(pytorch_groups, place_replica, defaults=with_replicas(SPECS))

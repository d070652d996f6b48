"""RayCluster: a head that must run, worker groups with floors, multi-host replicas as whole units.

Floors follow KubeRay: a group's replicas are clamped between its minimum and maximum, and are 0
while it is suspended. With the autoscaler on, only the minimum is promised: growth never raises it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kai_ray.api import labels as keys
from kai_ray.api import operator_defaults as kuberay
from kai_ray.podgrouper import topologies
from kai_ray.podgrouper.build import (
    build_group,
    group_name,
    pod_template,
    soft_template,
    with_containers,
)
from kai_ray.podgrouper.groups import LARGEST_TREE, Group, Member, SubGroup, dns_label, too_many
from kai_ray.podgrouper.values import (
    GroupError,
    Object,
    annotations_of,
    count,
    dig,
    flag,
    labels,
    mapping,
    name_of,
    namespace_of,
    owner_references,
    sequence,
    text,
)
from kai_ray.podgrouper.workload import Place, Rule, Workload

HEAD = kuberay.RAY_HEAD_GROUP
SUBMITTER = "submitter"
REDIS_CLEANUP = "redis-cleanup"
TOGETHER, ONE_BY_ONE = "together", "one-by-one"
_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """`floor` and `desired` in replicas of `hosts` pods each; `label` is ray.io/group."""

    label: str
    subgroup: str
    floor: int
    desired: int
    hosts: int
    template: Object
    field: str


def worker_groups(
    spec: Object, at: str, *, strict: bool = False, elastic: bool = False
) -> list[WorkerGroup]:
    """The groups that have or promise pods. `strict` refuses groups without a pod template.

    `elastic`: their sizes follow the room, as if Ray's autoscaler set them.
    """
    autoscaling = flag(spec, "enableInTreeAutoscaling", at) or elastic
    taken = {HEAD, SUBMITTER, REDIS_CLEANUP}
    found: list[WorkerGroup] = []
    stated = sequence(spec, "workerGroupSpecs", at)
    if len(stated) > LARGEST_TREE:
        raise too_many(len(stated), f"{at}.workerGroupSpecs")
    for i, raw in enumerate(stated):
        field = f"{at}.workerGroupSpecs[{i}]"
        if not isinstance(raw, dict):
            raise GroupError(field, "is not an object", "write a worker group there")
        label = text(raw, "groupName", field) or f"worker-group-{i}"
        floor, desired = _replicas(raw, field, autoscaling)
        hosts = count(raw, "numOfHosts", 1, field) or 1
        template = (
            pod_template(raw, "template", field) if strict else soft_template(raw, "template")
        )
        subgroup = dns_label(label, taken)
        if desired:
            found.append(WorkerGroup(label, subgroup, floor, desired, hosts, template, field))
    return found


def _replicas(raw: Object, field: str, autoscaling: bool) -> tuple[int, int]:
    """(promised, wanted now) in replicas."""
    least = count(raw, "minReplicas", 0, field, cap=_LIMIT) or 0
    stated = count(raw, "maxReplicas", None, field, cap=_LIMIT)
    most = kuberay.RAY_MAX_REPLICAS if stated is None else stated
    if least > most:
        raise GroupError(
            f"{field}.minReplicas", f"is {least}, above maxReplicas {most}", "raise maxReplicas"
        )
    wanted = count(raw, "replicas", 0, field, cap=_LIMIT) or 0
    if flag(raw, "suspend", field):
        return 0, 0
    desired = min(max(wanted, least), most)
    return (least if autoscaling else desired), desired


def cluster_tree(w: Workload, groups: Sequence[WorkerGroup], notes: list[str]) -> list[SubGroup]:
    """A leaf per group; for a multi-host group a set with a leaf per replica: none is ever cut."""
    size = sum(g.desired + 1 if g.hosts > 1 else 1 for g in groups)
    if size > LARGEST_TREE:
        raise too_many(size, "workerGroupSpecs")
    taken = {HEAD, SUBMITTER, REDIS_CLEANUP} | {g.subgroup for g in groups}
    tree: list[SubGroup] = []
    for group in groups:
        constraint = topologies.template_topology(
            w, group.template, notes, f"{group.field}.template"
        )
        if group.hosts == 1:
            tree.append(SubGroup(group.subgroup, group.floor, topology=constraint))
            continue
        tree.append(SubGroup(group.subgroup, min_sub_group=group.floor))
        for i in range(group.desired):
            leaf = dns_label(f"{group.subgroup}-{i}", taken)
            tree.append(SubGroup(leaf, group.hosts, parent=group.subgroup, topology=constraint))
    return tree


def cluster_group(
    w: Workload,
    cluster: Object,
    *,
    at: str = "spec",
    name: str = "",
    submitter: Object | None = None,
    sidecar: Object | None = None,
) -> Group:
    """The group of one RayCluster, owned by `w.subject` (the cluster, its RayJob or RayService).

    submitter: template of the pod that submits the job when the cluster is up (an optional member).
    sidecar: a container that the operator adds to the head instead.
    """
    spec = mapping(cluster, "spec")
    elastic = annotations_of(w.subject).get(keys.ELASTIC) == "true"
    groups = worker_groups(spec, at, strict=w.planning, elastic=elastic)
    head = _head_template(w, spec, at, sidecar)
    notes: list[str] = []
    constraint = topologies.template_topology(w, head, notes, f"{at}.headGroupSpec.template")
    tree = [SubGroup(HEAD, 1, topology=constraint), *cluster_tree(w, groups, notes)]
    members = [Member(HEAD, head, 1, HEAD)]
    members += [
        Member(g.label, _with_init(g.template), g.desired * g.hosts, g.subgroup) for g in groups
    ]
    if submitter is not None:
        tree.append(SubGroup(SUBMITTER, 0))
        members.append(Member(SUBMITTER, submitter, 1, SUBMITTER, optional=True))
    if _keeps_state_in_redis(cluster, spec):
        tree.append(SubGroup(REDIS_CLEANUP, 0))
    name = name or group_name(cluster)
    if _is_flat(w, name):
        tree = []
    group = build_group(
        w,
        name=name,
        min_member=1 + sum(g.floor * g.hosts for g in groups),
        sub_groups=tree,
        members=members,
        forced_priority=labels(w.subject).get(keys.RAY_PRIORITY_CLASS, ""),
        notes=notes,
    )
    return with_growth(w, group, spec, at)


def with_growth(w: Workload, group: Group, spec: Object, at: str) -> Group:
    """What Ray's autoscaler asks for starts together, in all worker groups, or not at all.

    Half of a placement group that waits for its other half holds GPUs and does nothing. Annotation
    `kai.scheduler/growth: one-by-one` is for work that can use every single worker.
    """
    stated = annotations_of(w.subject).get(keys.GROWTH, TOGETHER)
    if stated not in (TOGETHER, ONE_BY_ONE):
        note = f"annotation {keys.GROWTH} is {stated!r}: write {TOGETHER} or {ONE_BY_ONE}"
        group = replace(group, notes=(*group.notes, note))
    asked = {
        name: member.count
        for member in group.members
        if member.subgroup is not None and not member.optional and member.role != HEAD
        for name in [member.subgroup]
    }
    parents = {sub.parent for sub in group.sub_groups}
    leaves = {
        sub.name: asked.get(sub.name, sub.min_member or 0)
        for sub in group.sub_groups
        if sub.name not in parents and (sub.name in asked or sub.parent in asked)
    }
    if stated == ONE_BY_ONE or not leaves or not flag(spec, "enableInTreeAutoscaling", at):
        return group
    text = json.dumps(leaves, sort_keys=True, separators=(",", ":"))
    return replace(group, annotations={**group.annotations, keys.GROWS_TOGETHER: text})


def _is_flat(w: Workload, name: str) -> bool:
    """Whether an older version made this group without subgroups: its pods carry none either."""
    found = w.reader.get("scheduling.run.ai/v2alpha2", "PodGroup", name, w.namespace)
    return found is not None and not dig(found, "spec.subGroups")


def _head_template(w: Workload, spec: Object, at: str, sidecar: Object | None) -> Object:
    where = f"{at}.headGroupSpec"
    head = dig(spec, "headGroupSpec")
    template = (
        pod_template(head, "template", where) if w.planning else soft_template(head, "template")
    )
    extra: list[Object] = []
    if flag(spec, "enableInTreeAutoscaling", at):
        resources = dig(spec, "autoscalerOptions.resources") or kuberay.RAY_AUTOSCALER_RESOURCES
        extra.append({"name": kuberay.RAY_AUTOSCALER_CONTAINER, "resources": resources})
    if sidecar is not None:
        extra.append(sidecar)
    return with_containers(template, "containers", extra)


def _with_init(template: Object) -> Object:
    """A worker's template with the init container that waits for the head."""
    wait = kuberay.container(kuberay.RAY_WAIT_GCS_CONTAINER, kuberay.RAY_WAIT_GCS_RESOURCES)
    return with_containers(template, "initContainers", [wait])


def _keeps_state_in_redis(cluster: Object, spec: Object) -> bool:
    """Whether KubeRay runs a clean-up Job when the cluster is deleted."""
    options = dig(spec, "gcsFaultToleranceOptions")
    if isinstance(options, dict) and options.get("redisAddress"):
        return True
    return annotations_of(cluster).get("ray.io/ft-enabled") == "true"


def cluster_groups(w: Workload) -> list[Group]:
    return [cluster_group(w, w.subject)]


def group_of_cluster(groups: Sequence[Group], cluster: str) -> Group:
    """The group named after a cluster; the only one where the cluster is not known."""
    for group in groups:
        if cluster and group.name.startswith(f"pg-{cluster}-"):
            return group
    if len(groups) == 1:
        return groups[0]
    raise GroupError(
        f"metadata.labels[{keys.RAY_CLUSTER}]",
        f"names no cluster of this workload: {cluster or 'missing'}",
        "wait until the cluster exists",
    )


def place_ray_pod(w: Workload, pod: Object, groups: Sequence[Group]) -> Place:
    """By KubeRay's labels. A pod of a multi-host group without an index gets the group's set."""
    found = labels(pod)
    nearest = w.owners[0] if w.owners else {}
    cluster = found.get(keys.RAY_CLUSTER, "") or _owning_cluster(w, pod)
    group = group_of_cluster(groups, cluster)
    names = {sub.name: sub for sub in group.sub_groups}
    if not names:
        return Place(group.name)
    role = found.get(keys.RAY_NODE_TYPE, "")
    if role == "redis-cleanup" or (nearest.get("kind") == "Job" and REDIS_CLEANUP in names):
        return Place(group.name, REDIS_CLEANUP if REDIS_CLEANUP in names else None)
    if nearest.get("kind") == "Job" and SUBMITTER in names:
        return Place(group.name, SUBMITTER)
    label = found.get(keys.RAY_GROUP, "")
    if role == "head" or (not role and label == HEAD):
        return Place(group.name, HEAD)
    return Place(group.name, _worker_leaf(w, group, cluster, label, found) if label else None)


def _worker_leaf(
    w: Workload, group: Group, cluster: str, label: str, found: dict[str, str]
) -> str | None:
    subgroup = next((m.subgroup for m in group.members if m.role == label), None)
    if subgroup is None:  # a group of 0 that just grew: its leaf is on its way
        return dns_label(label, {HEAD, SUBMITTER, REDIS_CLEANUP})
    multi_host = any(sub.parent == subgroup for sub in group.sub_groups)
    index = found.get(keys.RAY_REPLICA_INDEX, "")
    return f"{subgroup}-{int(index)}" if multi_host and index.isdecimal() else subgroup


def _owning_cluster(w: Workload, pod: Object) -> str:
    for owner in (*w.owners, w.subject):
        if owner.get("kind") == "RayCluster":
            return name_of(owner)
    for reference in owner_references(pod):
        if reference.get("kind") == "RayCluster":
            return str(reference.get("name") or "")
    return ""


def find_cluster(w: Workload, name: str) -> Object | None:
    """A RayCluster by name, in the version of the subject or the newest."""
    for owner in w.owners:
        if owner.get("kind") == "RayCluster" and name_of(owner) == name and "spec" in owner:
            return owner
    version = str(w.subject.get("apiVersion") or "")
    for api_version in dict.fromkeys((version, "ray.io/v1", "ray.io/v1alpha1")):
        if api_version.startswith("ray.io/"):
            namespace = namespace_of(w.subject) or w.namespace
            found = w.reader.get(api_version, "RayCluster", name, namespace)
            if found is not None:
                return found
    return None


def planned_cluster(spec: Object, name: str, owner: Object) -> Object:
    """The RayCluster that the operator will create for `owner`, as far as groups need it."""
    return {
        "apiVersion": owner.get("apiVersion"),
        "kind": "RayCluster",
        "metadata": {"name": name, "namespace": namespace_of(owner), "uid": "<uid>"},
        "spec": spec,
    }


RULE = Rule(cluster_groups, place_ray_pod)

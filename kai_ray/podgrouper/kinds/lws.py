"""LeaderWorkerSet: a group for each replica: the leader and its workers, perhaps in segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kai_ray.api import labels as keys
from kai_ray.podgrouper import topologies
from kai_ray.podgrouper.build import LARGEST_NAME, build_group, group_name, soft_template
from kai_ray.podgrouper.groups import LARGEST_TREE, Group, Member, SubGroup, Topology, too_many
from kai_ray.podgrouper.values import (
    GroupError,
    Object,
    annotations_of,
    count,
    dig,
    labels,
    number_in,
    text,
)
from kai_ray.podgrouper.workload import Place, Rule, Workload

GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
SIZE = "leaderworkerset.sigs.k8s.io/size"
LEADER, WORKERS = "leader", "workers"
_TEMPLATE = "spec.leaderWorkerTemplate"


def lws_groups(w: Workload) -> list[Group]:
    if w.pod is not None:
        return [_group(w, labels(w.pod).get(GROUP_INDEX, ""))]
    replicas = count(w.subject, "spec.replicas", 1)
    number = 1 if replicas is None else replicas
    if number > LARGEST_TREE:
        raise too_many(number, "spec.replicas")
    return [_group(w, str(i)) for i in range(number)]


def _group(w: Workload, index: str) -> Group:
    size = _size(w)
    total = 1 if _waits_for_leader(w) else size
    notes: list[str] = []
    name = group_name(w.subject) + (f"-group-{index}" if index else "")
    worker = soft_template(w.subject, f"{_TEMPLATE}.workerTemplate")
    leader = soft_template(w.subject, f"{_TEMPLATE}.leaderTemplate") or worker
    members = [Member(LEADER, leader, 1, LEADER)]
    if size > 1:
        members.append(Member(WORKERS, worker, size - 1, WORKERS))
    segment = _segment_size(w, size)
    if segment and total > 1:
        tree = _segments(w, size, segment)
        members = [replace(m, subgroup=None) for m in members]
    else:
        tree = [SubGroup(LEADER, 1, topology=topologies.kueue_topology(w, leader, notes) or None)]
        if total > 1:
            around = topologies.kueue_topology(w, worker, notes) or None
            tree.append(SubGroup(WORKERS, total - 1, topology=around))
    return build_group(
        w,
        name=name[:LARGEST_NAME],
        min_member=total,
        sub_groups=tree,
        members=members,
        notes=notes,
    )


def _size(w: Workload) -> int:
    stated = annotations_of(w.pod).get(SIZE)
    if stated is not None:
        return number_in(stated, f"annotation {SIZE} of the pod", least=1)
    size = count(w.subject, f"{_TEMPLATE}.size", 1, cap=10**6)
    if not size:
        raise GroupError(f"{_TEMPLATE}.size", "is 0", "write 1 or more")
    return size


def _waits_for_leader(w: Workload) -> bool:
    """LeaderReady: workers are made when the leader runs, so it starts alone."""
    if text(w.subject, "spec.startupPolicy") != "LeaderReady" or w.planning or w.pod is None:
        return False
    if labels(w.pod).get(WORKER_INDEX) == "0" or WORKER_INDEX not in labels(w.pod):
        return not _has_a_node(w.pod)
    return False


def _has_a_node(pod: Object) -> bool:
    if dig(pod, "spec.nodeName"):
        return True
    conditions = dig(pod, "status.conditions")
    return any(
        c.get("type") == "PodScheduled" and c.get("status") == "True"
        for c in (conditions if isinstance(conditions, list) else ())
        if isinstance(c, dict)
    )


def _segment_size(w: Workload, size: int) -> int:
    policy = count(w.subject, f"{_TEMPLATE}.subGroupPolicy.subGroupSize", None)
    if policy is not None:
        return _checked(policy, size, f"{_TEMPLATE}.subGroupPolicy.subGroupSize")
    worker = dig(w.subject, f"{_TEMPLATE}.workerTemplate")
    for words, obj in (("the LeaderWorkerSet", w.subject), ("the worker template", worker)):
        value = annotations_of(obj).get(keys.SEGMENT_SIZE)
        if value is not None:
            field = f"annotation {keys.SEGMENT_SIZE} of {words}"
            return _checked(number_in(value, field, least=1), size, field)
    return 0


def _checked(segment: int, size: int, field: str) -> int:
    if not 2 <= segment <= size:
        raise GroupError(field, f"is {segment}", f"write a number from 2 to the size {size}")
    return segment


def _leader_excluded(w: Workload) -> bool:
    kind = text(w.subject, f"{_TEMPLATE}.subGroupPolicy.subGroupPolicyType")
    return kind == "LeaderExcluded"


def _segments(w: Workload, size: int, segment: int) -> list[SubGroup]:
    """Leader alone before the segments, or inside the first one beside its workers."""
    constraint = _segment_topology(w)
    pods = size - 1 if _leader_excluded(w) else size
    number = -(-pods // segment)
    if number > LARGEST_TREE:
        raise too_many(number, "the segments")
    if _leader_excluded(w):
        if pods % segment:
            raise GroupError(
                f"{_TEMPLATE}.subGroupPolicy.subGroupSize",
                f"{segment} does not divide the {pods} workers",
                "choose a divisor, or let the leader be part of a segment",
            )
        tree = [SubGroup(LEADER, 1)]
        return tree + [
            SubGroup(f"segment-{i}", segment, topology=constraint) for i in range(number)
        ]
    tree = [
        SubGroup("segment-0", min_sub_group=2, topology=constraint),
        SubGroup(LEADER, 1, parent="segment-0"),
        SubGroup(WORKERS, min(segment, size) - 1, parent="segment-0"),
    ]
    for i in range(1, number):
        rest = min(segment, pods - i * segment)
        tree.append(SubGroup(f"segment-{i}", rest, topology=constraint))
    return tree


def _segment_topology(w: Workload) -> Topology | None:
    worker = dig(w.subject, f"{_TEMPLATE}.workerTemplate")

    def stated(key: str) -> str:
        return annotations_of(w.subject).get(key) or annotations_of(worker).get(key) or ""

    found = Topology(
        stated(keys.TOPOLOGY),
        stated(keys.SEGMENT_TOPOLOGY_REQUIRED),
        stated(keys.SEGMENT_TOPOLOGY_PREFERRED),
    )
    return found if found.name and (found.required or found.preferred) else None


def place_lws_pod(w: Workload, pod: Object, groups: Sequence[Group]) -> Place:
    group = groups[0]
    names = group.leaf_names()
    index = labels(pod).get(WORKER_INDEX)
    at = (
        0
        if index == "0"
        else number_in(index or "-", f"label {WORKER_INDEX}", least=0)
        if index
        else 1
    )
    if at == 0:
        return Place(group.name, LEADER)
    if not any(name.startswith("segment-") for name in {s.name for s in group.sub_groups}):
        return Place(group.name, WORKERS if WORKERS in names else None)
    size = _size(w)
    segment = _segment_size(w, size)
    # Workers count from 1. Where they alone fill the segments, the first of them is number 0.
    slot = at - 1 if (size - 1) % segment == 0 else at
    leaf = f"segment-{slot // segment}"
    if leaf in names:
        return Place(group.name, leaf)
    return Place(group.name, WORKERS if leaf == "segment-0" else None)


RULE = Rule(lws_groups, place_lws_pod, per_pod=True)

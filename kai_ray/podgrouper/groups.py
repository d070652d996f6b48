"""What a workload becomes: a group, its tree of subgroups, and the pods that will be members."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kai_ray.api import labels as keys

from .values import GroupError, Object, group_of, kind_of, name_of, uid_of

#: A PodGroup of more subgroups than this is refused: it could not be stored in one object.
LARGEST_TREE = 10_000
#: Annotations of the workload that say nothing about its group: kubectl's own, and what we tell
#: users on their object.
_NOT_INHERITED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        keys.EVICTION_NOTICE,
        keys.ATTEMPT_ENDED,
        keys.ELASTIC_SIZE,
    }
)
#: Annotation on a PodGroup: the queue that was last derived, so that a re-labelled workload moves.
DERIVED_QUEUE = "kai.scheduler/derived-queue"


@dataclass(frozen=True, slots=True)
class Topology:
    """A constraint: node-label keys of levels of a Topology object; "" where not asked for."""

    name: str = ""
    required: str = ""
    preferred: str = ""

    def __bool__(self) -> bool:
        return bool(self.name or self.required or self.preferred)


@dataclass(frozen=True, slots=True)
class SubGroup:
    """A leaf has `min_member`; a subgroup with children has `min_sub_group` (None: all of them)."""

    name: str
    min_member: int | None = None
    parent: str | None = None
    min_sub_group: int | None = None
    topology: Topology | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """`count` equal pods of the group, made from `template` (a pod or a pod template).

    `optional` members come late or may never come: they are accounted but no start waits for them.
    """

    role: str
    template: Object
    count: int
    subgroup: str | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Owner:
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """One PodGroup to be. `sources` says where queue, priority and so on were found."""

    name: str
    namespace: str
    owner: Owner
    queue: str
    priority_class: str
    preemptibility: str = ""
    preemptible: bool = True
    min_member: int | None = 1
    min_sub_group: int | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    topology: Topology = Topology()
    preemption_delay: str = ""
    staleness_grace_period: str = ""
    labels: dict[str, str] = field(default_factory=dict[str, str])
    annotations: dict[str, str] = field(default_factory=dict[str, str])
    members: tuple[Member, ...] = ()
    sources: dict[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()

    @property
    def pods(self) -> int:
        """Pods that the workload asks for now, optional ones included."""
        return sum(member.count for member in self.members)

    @property
    def floor(self) -> int:
        """Pods without which the gang does not start: the cheapest way to satisfy the tree."""
        if not self.sub_groups:
            return 1 if self.min_member is None else self.min_member
        return floor_of(self.sub_groups, self.min_sub_group)

    def leaf_names(self) -> set[str]:
        parents = {s.parent for s in self.sub_groups}
        return {s.name for s in self.sub_groups if s.name not in parents}


def floor_of(sub_groups: tuple[SubGroup, ...], min_sub_group: int | None) -> int:
    """The least number of pods that satisfies the root of a tree of subgroups."""
    children: dict[str | None, list[SubGroup]] = {}
    for sub in sub_groups:
        children.setdefault(sub.parent, []).append(sub)

    def least(name: str | None, wanted: int | None) -> int:
        below = sorted(
            least(c.name, c.min_sub_group) if c.name in children else c.min_member or 0
            for c in children.get(name, ())
        )
        return sum(below if wanted is None else below[:wanted])

    return least(None, min_sub_group)


def check_tree(sub_groups: tuple[SubGroup, ...]) -> None:
    """Refuses what the API would: too many subgroups, a name twice, unknown parents, circles."""
    if len(sub_groups) > LARGEST_TREE:
        raise too_many(len(sub_groups), "the workload")
    seen: dict[str, str | None] = {}
    for sub in sub_groups:
        if sub.name in seen:
            raise GroupError(
                f"subGroups[{sub.name}]", "comes twice", "give each group of pods its own name"
            )
        seen[sub.name] = sub.parent
    for sub in sub_groups:
        hops: set[str] = {sub.name}
        parent = sub.parent
        while parent is not None:
            if parent not in seen:
                raise GroupError(
                    f"subGroups[{sub.name}].parent", f"{parent!r} does not exist", "name a subgroup"
                )
            if parent in hops:
                raise GroupError(
                    f"subGroups[{sub.name}].parent", "goes round in a circle", "break the circle"
                )
            hops.add(parent)
            parent = seen[parent]


def too_many(amount: int, field_name: str) -> GroupError:
    return GroupError(
        field_name,
        f"would give {amount} subgroups, above the limit of {LARGEST_TREE}",
        "use fewer or larger groups",
    )


_NOT_DNS = re.compile(r"[^a-z0-9-]+")


def dns_label(raw: str, taken: set[str]) -> str:
    """A name the API takes (DNS-1123 label, ≤ 63) and that is not in `taken`; adds itself there."""
    base = _NOT_DNS.sub("-", raw.lower()).strip("-")[:63].rstrip("-") or "group"
    name, again = base, 1
    while name in taken:
        again += 1
        tail = f"-{again}"
        name = base[: 63 - len(tail)].rstrip("-") + tail
    taken.add(name)
    return name


def _yaml_scalar(value: str) -> str:
    """Quoted where YAML would read something else than this text."""
    looks_other = re.fullmatch(
        r"[-+]?(\d[\d_]*)?\.?\d*([eE][-+]?\d+)?|0[xXoObB][\da-fA-F]+|true|false|yes|no|on|off|null|~"
        r"|True|False|Yes|No|On|Off|Null|TRUE|FALSE|NULL|y|n|Y|N|\.(inf|nan)",
        value,
    )
    if not value or looks_other or value[0] in "!&*-?:,[]{}#|>@`\"'% " or ": " in value:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return value


def top_owner_metadata(top: Owner) -> str:
    """The text of annotation kai.scheduler/top-owner-metadata."""
    version = top.api_version.rpartition("/")[2]
    rows = (
        ("name", top.name),
        ("uid", top.uid),
        ("group", group_of(top.api_version)),
        ("version", version),
        ("kind", top.kind),
    )
    return "".join(f"{key}: {_yaml_scalar(value)}\n" for key, value in rows)


def _topology(constraint: Topology | None) -> Object:
    if not constraint:
        return {}
    found = {
        "topology": constraint.name,
        "requiredTopologyLevel": constraint.required,
        "preferredTopologyLevel": constraint.preferred,
    }
    return {k: v for k, v in found.items() if v}


def _sub_group(sub: SubGroup) -> Object:
    found: Object = {"name": sub.name}
    if sub.parent is not None:
        found["parent"] = sub.parent
    if sub.min_sub_group is not None:
        found["minSubGroup"] = sub.min_sub_group
    elif sub.min_member is not None:
        found["minMember"] = sub.min_member
    if sub.topology and sub.topology.name:
        found["topologyConstraint"] = _topology(sub.topology)
    return found


def to_podgroup(group: Group) -> Object:
    """The PodGroup manifest (scheduling.run.ai/v2alpha2)."""
    spec: Object = {"queue": group.queue, "priorityClassName": group.priority_class}
    if group.min_sub_group is not None:
        spec["minSubGroup"] = group.min_sub_group
    elif group.min_member is not None:
        spec["minMember"] = group.min_member
    if group.preemptibility:
        spec["preemptibility"] = group.preemptibility
    if group.topology and group.topology.name:
        spec["topologyConstraint"] = _topology(group.topology)
    if group.preemption_delay:
        spec["preemptionDelay"] = group.preemption_delay
    if group.staleness_grace_period:
        spec["stalenessGracePeriod"] = group.staleness_grace_period
    if group.sub_groups:
        spec["subGroups"] = [_sub_group(sub) for sub in group.sub_groups]
    notes = {k: v for k, v in group.annotations.items() if k not in _NOT_INHERITED}
    meta: Object = {
        "name": group.name,
        "namespace": group.namespace,
        "labels": {**group.labels, keys.QUEUE: group.queue},
        "annotations": {**notes, DERIVED_QUEUE: group.queue},
    }
    if group.owner.uid:
        meta["ownerReferences"] = [
            {
                "apiVersion": group.owner.api_version,
                "kind": group.owner.kind,
                "name": group.owner.name,
                "uid": group.owner.uid,
            }
        ]
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": spec,
    }


def owner_reference(obj: Object) -> Owner:
    return Owner(*kind_of(obj), name_of(obj), uid_of(obj))

"""The annotation kai.scheduler/min-member: how many pods must start together, on every kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kai_ray.api import labels as keys

from .fields import sources
from .groups import Group, SubGroup
from .values import GroupError, annotations_of, number_in
from .workload import Workload


def stated_minimum(w: Workload, group: Group) -> tuple[int, str] | None:
    """(number, field) of the first owner or template that carries the annotation."""
    for words, obj in sources(w, group.members):
        value = annotations_of(obj).get(keys.MIN_MEMBER)
        if value is not None:
            field = f"metadata.annotations[{keys.MIN_MEMBER}] of {words}"
            return number_in(value, field, least=1), field
    return None


def with_min_member(w: Workload, group: Group) -> Group:
    """The group with the annotated minimum, checked against the pods that there can be."""
    stated = stated_minimum(w, group)
    if stated is None:
        return group
    wanted, field = stated
    most = sum(m.count for m in group.members if not m.optional)
    if group.members and wanted > most:
        raise GroupError(
            field,
            f"asks for {wanted} pods, but the workload makes {most}",
            f"write at most {most}, or raise the replicas",
        )
    if not group.sub_groups:
        return replace(group, min_member=wanted)
    return _spread(group, wanted)


@dataclass(slots=True)
class _Branch:
    """A direct child of the root: `steps` are the pods that each further unit adds to the floor."""

    sub: SubGroup
    steps: list[int]
    taken: int

    @property
    def floor(self) -> int:
        return sum(self.steps[: self.taken])


def _spread(group: Group, wanted: int) -> Group:
    """Lowers the floors from the last subgroup up, or raises them from the first down.

    Whole units only: the floor becomes the smallest reachable one that is not below `wanted`.
    """
    branches = list(_branches(group))
    total = sum(b.floor for b in branches)
    for branch in reversed(branches):
        while branch.taken and total - branch.steps[branch.taken - 1] >= wanted:
            branch.taken -= 1
            total -= branch.steps[branch.taken]
    for branch in branches:
        while total < wanted and branch.taken < len(branch.steps):
            total += branch.steps[branch.taken]
            branch.taken += 1
    floors = {b.sub.name: b for b in branches}

    def changed(sub: SubGroup) -> SubGroup:
        branch = floors.get(sub.name)
        if branch is None:
            return sub
        if sub.min_member is not None:
            return replace(sub, min_member=branch.taken)
        return replace(sub, min_sub_group=branch.taken)

    tree = tuple(changed(sub) for sub in group.sub_groups)
    sized = replace(group, sub_groups=tree, min_sub_group=None)
    return replace(sized, min_member=sized.floor)


def _branches(group: Group) -> Iterator[_Branch]:
    counts: dict[str, int] = {}
    for member in group.members:
        if member.subgroup is not None and not member.optional:
            counts[member.subgroup] = counts.get(member.subgroup, 0) + member.count
    for sub in group.sub_groups:
        if sub.parent is not None:
            continue
        children = [c for c in group.sub_groups if c.parent == sub.name]
        if children:
            steps = [c.min_member or 0 for c in children]
            taken = len(steps) if sub.min_sub_group is None else min(sub.min_sub_group, len(steps))
            yield _Branch(sub, steps, taken)
        else:
            floor = sub.min_member or 0
            yield _Branch(sub, [1] * max(floor, counts.get(sub.name, 0)), floor)

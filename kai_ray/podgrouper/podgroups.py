"""Writing PodGroups: what is derived replaces what was derived, what others set stays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from kai_ray.api import labels as keys

from .groups import DERIVED_QUEUE, Group, SubGroup, to_podgroup
from .values import Object, annotations_of, metadata

#: Spec fields that follow the workload; all others belong to the user or to the scheduler.
_DERIVED = (
    "minMember",
    "minSubGroup",
    "priorityClassName",
    "preemptibility",
    "preemptionDelay",
    "stalenessGracePeriod",
    "subGroups",
)
_KEPT_LABELS = (keys.QUEUE, keys.NODE_POOL)


def merged(existing: Object, group: Group) -> Object | None:
    """`existing` brought up to date, or None if nothing is to be written.

    The queue moves only when the workload's own word for it has changed since it was last derived:
    somebody may have moved the PodGroup by hand.
    """
    wanted = to_podgroup(group)
    spec: Object = dict(existing.get("spec") or {})
    before = dict(spec)
    for field in _DERIVED:
        spec.pop(field, None)
        if field in wanted["spec"]:
            spec[field] = wanted["spec"][field]
    if "topologyConstraint" in wanted["spec"]:
        spec["topologyConstraint"] = wanted["spec"]["topologyConstraint"]
    derived = annotations_of(existing).get(DERIVED_QUEUE)
    moved = derived is not None and derived != group.queue
    if moved or not spec.get("queue"):
        spec["queue"] = group.queue
    meta: Object = dict(metadata(existing))
    labels = dict(meta.get("labels") or {})
    for key, value in wanted["metadata"]["labels"].items():
        if key not in _KEPT_LABELS or key not in labels or (moved and key == keys.QUEUE):
            labels[key] = value
    notes = {**(meta.get("annotations") or {}), **wanted["metadata"]["annotations"]}
    if keys.SUSPENDED not in wanted["metadata"]["annotations"]:
        notes.pop(keys.SUSPENDED, None)  # the workload has been resumed
    same_meta = labels == (meta.get("labels") or {}) and notes == (meta.get("annotations") or {})
    if same_meta and _plain(spec) == _plain(before):
        return None
    meta["labels"], meta["annotations"] = labels, notes
    return {**existing, "metadata": meta, "spec": spec}


def _plain(value: Any) -> Any:
    """Without empty parts, which the API server may add or leave out."""
    if isinstance(value, Mapping):
        rows = {k: _plain(v) for k, v in value.items()}
        return {k: v for k, v in rows.items() if v not in (None, "", [], {})}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value


def with_leaves_of(group: Group, existing: Object | None, in_use: Collection[str]) -> Group:
    """Keeps subgroups that live pods still name though the workload has shrunk: with minimum 0."""
    names = {s.name for s in group.sub_groups}
    if existing is None or not names or not set(in_use) - names:
        return group
    old = {s.get("name"): s for s in _sub_groups(existing)}
    kept: list[SubGroup] = []
    for name in sorted(set(in_use) - names):
        row = old.get(name)
        if row is None:
            continue
        parent = row.get("parent")
        floor = row.get("minMember") if parent in names else 0
        kept.append(SubGroup(name, floor or 0, parent=parent if parent in names else None))
    return replace(group, sub_groups=(*group.sub_groups, *kept)) if kept else group


def _sub_groups(existing: Object) -> list[Object]:
    found = (existing.get("spec") or {}).get("subGroups")
    return [s for s in found or () if isinstance(s, dict)]


def has_started(existing: Object) -> bool:
    return keys.LAST_START in annotations_of(existing)


def without_sudden_floors(group: Group, existing: Object, active: Mapping[str, int]) -> Group:
    """Floors of a group that runs rise only as far as its pods do: growth must not make it stale.

    active: running pods per leaf. A floor that falls, falls at once.
    """
    old = {s.get("name"): s for s in _sub_groups(existing)}
    changed = False
    tree: list[SubGroup] = []
    children: dict[str | None, list[SubGroup]] = {}
    for sub in group.sub_groups:
        children.setdefault(sub.parent, []).append(sub)
    for sub in group.sub_groups:
        row = old.get(sub.name) or {}
        if sub.name in children:
            ceiling = max(
                int(row.get("minSubGroup") or 0), _whole_units(children[sub.name], active)
            )
            wanted = sub.min_sub_group
            if wanted is not None and wanted > ceiling:
                sub, changed = replace(sub, min_sub_group=ceiling), True
        elif sub.parent is None and sub.min_member is not None:
            ceiling = max(int(row.get("minMember") or 0), active.get(sub.name, 0))
            if sub.min_member > ceiling:
                sub, changed = replace(sub, min_member=ceiling), True
        tree.append(sub)
    if not changed:
        return group
    safe = replace(group, sub_groups=tuple(tree))
    return replace(safe, min_member=safe.floor) if group.min_member is not None else safe


def _whole_units(leaves: Iterable[SubGroup], active: Mapping[str, int]) -> int:
    return sum(active.get(leaf.name, 0) >= (leaf.min_member or 0) for leaf in leaves)

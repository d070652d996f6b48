"""A PodGroup as one gang row and the rows of its subgroup tree."""

from __future__ import annotations

import contextlib
import json
import math
from functools import lru_cache
from typing import Any, NamedTuple

from kai_ray.api import labels as names
from kai_ray.cluster.port import Object

from . import traits
from .pod_rows import created, seconds
from .problems import Malformed
from .settings import EncodeConfig, spoken_name
from .topologies import Bond, bond
from .traits import SILENT, Traits

#: The leaf of pods that name no subgroup.
DEFAULT_LEAF = "default"
INT32_MAX = 2**31 - 1


class TreeRow(NamedTuple):
    """One node of a gang's tree; `parent` counts from the gang's root (row 0)."""

    name: str
    parent: int
    leaf: bool
    minimum: int
    bond: Bond | None = None  # which nodes must or should be near each other
    asked: int = -1  # pods asked for so far, of leaves that grow together; -1 = one by one


class GroupRow(NamedTuple):
    queue: str
    priority_class: str
    preemptible: int  # 1, 0, or -1 = by priority
    created_s: float
    last_start_s: float  # -inf = never
    tree: tuple[TreeRow, ...]
    given_up: bool = False  # schedulingBackoff 1: was refused once, is not tried again
    traits: Traits = SILENT


#: The tree of a PodGroup that cannot be read: nothing is missing, nothing more starts.
INERT_TREE = (TreeRow("", -1, False, 0), TreeRow(DEFAULT_LEAF, 0, True, 0))


def read(group: Object, config: EncodeConfig) -> GroupRow:
    """Raises Malformed."""
    meta = group["metadata"]
    spec = group.get("spec") or {}
    row = _row(meta, spec, created(meta), _tree(spec, config))
    row = row._replace(traits=traits.read(meta), tree=_growing(row.tree, meta))
    if spec.get("schedulingBackoff") == 1 and _refused(group):
        row = row._replace(given_up=True)
    return row


def frame(group: Object) -> GroupRow:
    """What can be said of any PodGroup, however malformed: its queue and rank."""
    return _row(group["metadata"], group.get("spec") or {}, 0.0, INERT_TREE)


def _refused(group: Object) -> bool:
    """Whether the group has been found unschedulable in the node pool it is in now."""
    pool = (group["metadata"].get("labels") or {}).get(names.NODE_POOL) or "default"
    return any(
        c.get("type") == "UnschedulableOnNodePool" and c.get("nodePool") == pool
        for c in (group.get("status") or {}).get("schedulingConditions") or ()
    )


def _row(
    meta: dict[str, Any], spec: dict[str, Any], created_s: float, tree: tuple[TreeRow, ...]
) -> GroupRow:
    annotations = meta.get("annotations")
    start = annotations.get(names.LAST_START) if annotations else None
    explicit = spec.get("preemptibility")
    last_start_s = -math.inf
    if start:
        with contextlib.suppress(Malformed):
            last_start_s = seconds(start)
    return GroupRow(
        spoken_name(spec.get("queue")),
        spoken_name(spec.get("priorityClassName")),
        -1 if explicit is None else int(explicit != "non-preemptible"),
        created_s,
        last_start_s,
        tree,
    )


def _tree(spec: dict[str, Any], config: EncodeConfig) -> tuple[TreeRow, ...]:
    subgroups = spec.get("subGroups")
    if not subgroups:
        return _flat(
            _count(spec.get("minMember"), 1, "spec.minMember"),
            _count(spec.get("minSubGroup"), 1, "spec.minSubGroup"),
            bond(spec.get("topologyConstraint"), "spec.topologyConstraint"),
        )
    if len(subgroups) > config.max_subgroups:
        raise Malformed(
            "spec.subGroups",
            f"{len(subgroups)} entries: at most {config.max_subgroups} are allowed",
        )
    return _nested(spec, subgroups)


@lru_cache(maxsize=4096)
def _flat(minimum: int, sets: int, bond: Bond | None) -> tuple[TreeRow, ...]:
    """Shared by all gangs of a size: thousands of small objects less to keep and to collect."""
    return (TreeRow("", -1, False, sets, bond), TreeRow(DEFAULT_LEAF, 0, True, minimum))


def _nested(spec: dict[str, Any], subgroups: list[dict[str, Any]]) -> tuple[TreeRow, ...]:
    by_name: dict[str, dict[str, Any]] = {}
    children: dict[str, list[str]] = {}
    for i, sub in enumerate(subgroups):
        name = sub.get("name")
        if not name or not isinstance(name, str):
            raise Malformed(f"spec.subGroups[{i}].name", "is missing")
        if name in by_name:
            raise Malformed(f"spec.subGroups[{i}].name", f"{name!r} is there twice: rename one")
        by_name[name] = sub
        children.setdefault(sub.get("parent") or "", []).append(name)
    for parent in children:
        if parent and parent not in by_name:
            raise Malformed(
                "spec.subGroups.parent", f"{parent!r} is not the name of a subgroup here"
            )
    rows = [_set("", spec, -1, children)]
    pending = [(name, 0) for name in sorted(children.get("", ()))]
    done = 0
    while done < len(pending):
        name, parent = pending[done]
        done += 1
        if name in children:
            rows.append(_set(name, by_name[name], parent, children))
            pending += [(child, len(rows) - 1) for child in sorted(children[name])]
        else:
            place, sub = f"spec.subGroups[{name}]", by_name[name]
            minimum = _count(sub.get("minMember"), 0, f"{place}.minMember")
            near = bond(sub.get("topologyConstraint"), f"{place}.topologyConstraint")
            rows.append(TreeRow(name, parent, True, minimum, near))
    if len(rows) - 1 != len(by_name):
        looping = sorted(set(by_name) - {row.name for row in rows})
        raise Malformed(
            "spec.subGroups.parent", f"{', '.join(looping[:3])} are parents of each other"
        )
    return tuple(rows)


def _set(name: str, spec: dict[str, Any], parent: int, children: dict[str, list[str]]) -> TreeRow:
    count = len(children.get(name, ()))
    place = f"spec.subGroups[{name}]" if name else "spec"
    minimum = _count(spec.get("minSubGroup"), count, f"{place}.minSubGroup")
    near = bond(spec.get("topologyConstraint"), f"{place}.topologyConstraint")
    return TreeRow(name, parent, False, minimum, near)


def _growing(tree: tuple[TreeRow, ...], meta: dict[str, Any]) -> tuple[TreeRow, ...]:
    """The tree with what the podgrouper says is asked for together. Raises Malformed."""
    text = (meta.get("annotations") or {}).get(names.GROWS_TOGETHER)
    if not text:
        return tree
    field = f"metadata.annotations[{names.GROWS_TOGETHER}]"
    try:
        asked = json.loads(text)
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        raise Malformed(field, f"{text!r} is not a JSON object of subgroups and pods: remove it")
    pods = {name: _count(number, 0, f"{field}.{name}") for name, number in asked.items()}
    return tuple(
        row._replace(asked=pods[row.name]) if row.leaf and row.name in pods else row for row in tree
    )


def _count(raw: Any, default: int, field: str) -> int:
    if raw is None:
        return default
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 <= raw <= INT32_MAX:
        raise Malformed(field, f"{raw!r} is not an integer from 0 to {INT32_MAX}")
    return raw

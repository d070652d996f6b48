"""Zones of nodes, alignment of classes and the zones that pods hold, as the core's tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kai_ray.api import labels as names
from kai_ray.api.labels import GPU_RESOURCES
from kai_ray.cluster.port import Key, Object
from kai_ray.scheduler.snapshot import ALLOCATED, Tasks, TaskState
from kai_ray.scheduler.zones.facts import Unit, ZonePolicy, Zones

from . import requests, zone_asks
from .problems import MISREAD, Malformed
from .requests import Amounts
from .shape import Shape
from .zone_rows import OWN_RULES, Zone, ZoneRow, ZoneRules

PodAt = Callable[[int], tuple[Key, Object | None]]
_OWN = {
    zone_asks.BEST_EFFORT: ZonePolicy.BEST_EFFORT,
    zone_asks.RESTRICTED: ZonePolicy.RESTRICTED,
    zone_asks.SINGLE: ZonePolicy.SINGLE,
}
_STAYING = np.zeros(16, dtype=np.bool_)
_STAYING[[int(s) for s in (*ALLOCATED, TaskState.STUCK)]] = True
#: Pods that their kubelet does not know yet, so that what it says is available holds them too.
_ON_THEIR_WAY = np.zeros(16, dtype=np.bool_)
_ON_THEIR_WAY[int(TaskState.BINDING)] = True
_NONE = ZoneRow()


def build(
    stated: Sequence[ZoneRow | None],
    shapes: Sequence[Shape],
    tasks: Tasks,
    resources: Sequence[str],
    pod_at: PodAt,
    rules: ZoneRules = OWN_RULES,
) -> tuple[Zones | None, Zones | None]:
    """(NUMA cells, link groups) of the nodes in their order; None where nobody tells or asks."""
    rows = [row or _NONE for row in stated]
    wants_cells = any(set(shape.zones.policies) & set(_OWN) for shape in shapes)
    wants_links = any(zone_asks.NVLINK in shape.zones.policies for shape in shapes)
    cells = links = None
    if wants_cells or any(row.zones for row in rows):
        own = [max((_OWN[p] for p in s.zones.policies if p in _OWN), default=0) for s in shapes]
        found = [(row.zones, row.policy, row.per_container) for row in rows]
        cells = _table(found, shapes, own, tasks, resources, pod_at, _CELL_NOTES, rules)
    if wants_links or any(row.links for row in rows):
        own = [int(_linked(shape)) for shape in shapes]
        found = [(row.links, ZonePolicy.BEST_EFFORT, False) for row in rows]
        links = _table(found, shapes, own, tasks, resources, pod_at, _LINK_NOTES, OWN_RULES)
    return cells, links


_CELL_NOTES = (names.NUMA_OBSERVED, names.NUMA_PREDICTED)
_LINK_NOTES = (names.LINKS_PREDICTED,)


def _linked(shape: Shape) -> ZonePolicy:
    asked = zone_asks.NVLINK in shape.zones.policies
    return ZonePolicy.SINGLE if asked else ZonePolicy.NONE


def _table(
    stated: Sequence[tuple[tuple[Zone, ...], ZonePolicy, bool]],
    shapes: Sequence[Shape],
    own: Sequence[int],
    tasks: Tasks,
    resources: Sequence[str],
    pod_at: PodAt,
    notes: Sequence[str],
    rules: ZoneRules,
) -> Zones:
    told = {name for zones, _, _ in stated for zone in zones for name, _ in zone.allocatable}
    told -= {"gpu" if name in GPU_RESOURCES else name for name in rules.ignored}
    known = [name for name in resources if name in told]
    place = {name: i for i, name in enumerate(known)}
    most = max((len(zones) for zones, _, _ in stated), default=0)
    shape = (max(most, 1), len(known), len(stated))
    allocatable = np.zeros(shape, dtype=np.int64)
    aware = np.zeros(shape[1:], dtype=np.bool_)
    for n, (zones, _, _) in enumerate(stated):
        for z, zone in enumerate(zones):
            for name, amount in zone.allocatable:
                if name in place:
                    allocatable[z, place[name], n] = amount
                    aware[place[name], n] = True
    holds = list(_holds(stated, place, tasks, pod_at, notes))
    columns = np.array(holds, dtype=np.int64).reshape(-1, 4).T
    available = allocatable.copy()
    counted = _STAYING
    if not rules.rebuilt:
        counted = _ON_THEIR_WAY
        for n, (zones, _, _) in enumerate(stated):
            for z, zone in enumerate(zones):
                for name, amount in zone.available:
                    if name in place:
                        available[z, place[name], n] = amount
    staying = counted[tasks.state[columns[0]]]
    node = tasks.node[columns[0]]
    at = (columns[1][staying], columns[2][staying], node[staying])
    np.subtract.at(available, at, columns[3][staying])
    linked = notes is _LINK_NOTES
    units = [_units(one, known, linked) for one in shapes]
    return Zones(
        rows=tuple(resources.index(name) for name in known),
        count=np.array([len(zones) for zones, _, _ in stated], dtype=np.int32),
        policy=np.array([policy for _, policy, _ in stated], dtype=np.int8),
        per_container=np.array([scope for _, _, scope in stated], dtype=np.bool_),
        allocatable=allocatable,
        available=available,
        aware=aware,
        pod_unit=tuple(unit for unit, _ in units),
        units=tuple(inner for _, inner in units),
        own_policy=np.array(own, dtype=np.int8),
        hold_task=columns[0].astype(np.int32),
        hold_zone=columns[1].astype(np.int32),
        hold_row=columns[2].astype(np.int32),
        hold_amount=columns[3],
    )


def _units(
    shape: Shape, known: Sequence[str], linked: bool
) -> tuple[Unit | None, tuple[Unit, ...]]:
    """The pod as one unit, and container by container; None = it is never aligned."""
    ask, amounts = shape.zones, _by_row(shape.request)
    if linked:
        gpus = amounts.get("gpu", 0) if shape.gpu.portion == 0 else 0
        unit = Unit(tuple(gpus if name == "gpu" else 0 for name in known)) if gpus else None
        return unit, (unit,) if unit else ()
    if ask.guaranteed:
        amounts["cpu"] = ask.cpu
    else:
        amounts = {name: v for name, v in amounts.items() if zone_asks.is_device(name)}
    want = tuple(amounts.get(name, 0) for name in known)
    if not ask.guaranteed and not any(want):
        return None, ()
    unit = Unit(want)
    if not ask.containers:
        return unit, (unit,)
    parts = ((_by_row(asked), serial) for asked, serial in ask.containers)
    return unit, tuple(Unit(tuple(a.get(n, 0) for n in known), serial) for a, serial in parts)


def _by_row(amounts: Amounts) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in amounts:
        row = "gpu" if name in GPU_RESOURCES else name
        found[row] = found.get(row, 0) + value
    return found


def _holds(
    stated: Sequence[tuple[tuple[Zone, ...], ZonePolicy, bool]],
    place: Mapping[str, int],
    tasks: Tasks,
    pod_at: PodAt,
    notes: Sequence[str],
) -> Iterator[tuple[int, int, int, int]]:
    """(task, zone, aligned row, amount) of pods on nodes with zones; bad notes are passed over."""
    here = np.array([bool(zones) for zones, _, _ in stated], dtype=np.bool_)
    there = tasks.node >= 0
    there[there] = here[tasks.node[there]]
    for task in np.flatnonzero(there).tolist():
        _, pod = pod_at(task)
        zones = stated[int(tasks.node[task])][0]
        number = {zone.name: z for z, zone in enumerate(zones)}
        pieces = _record(pod, notes)
        if any(zone not in number for zone, _ in pieces):
            continue  # it was written when the node had other zones
        for zone, amounts in pieces:
            for name, amount in _by_row(amounts).items():
                if name in place:
                    yield task, number[zone], place[name], amount


def _record(pod: Object | None, notes: Sequence[str]) -> list[tuple[str, Amounts]]:
    """What the first annotation that says anything says: zones by name, and amounts of them."""
    annotations: dict[str, Any] = ((pod or {}).get("metadata") or {}).get("annotations") or {}
    for note in notes:
        try:
            found = [
                (
                    str(piece["zone"]),
                    tuple((n, requests.amount(n, v, note)) for n, v in piece["amount"].items()),
                )
                for piece in json.loads(annotations.get(note) or "[]")
            ]
        except (Malformed, *MISREAD):
            continue
        if found:
            return found
    return []

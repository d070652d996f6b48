"""Devices of a pod that must agree in an attribute, as tables of the core: one zone per value.

A constraint `matchAttribute` binds the requests that it names; the pod's own policy `single-numa`
binds all its devices to one NUMA cell, `nvlink` its GPUs to one link group, and the laxer policies
prefer that. Pods without a constraint are booked to zones too, where they fit best, so that those
with one do not count on what others take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kai_ray.encode import zone_asks
from kai_ray.scheduler.snapshot import ALLOCATED, Snapshot, TaskState
from kai_ray.scheduler.zones.facts import Unit, ZonePolicy, Zones

from . import cells
from .asks import ALL, DeviceAsk, Option
from .attributes import Name

if TYPE_CHECKING:
    from kai_ray.encode.shape import Shape

    from .rows import Devices

_OWN = {
    zone_asks.BEST_EFFORT: ZonePolicy.BEST_EFFORT,
    zone_asks.RESTRICTED: ZonePolicy.RESTRICTED,
    zone_asks.SINGLE: ZonePolicy.SINGLE,
}
_STAYING = frozenset(int(s) for s in (*ALLOCATED, TaskState.STUCK))


class _Bond(NamedTuple):
    """What of a class goes into one zone each, and how strictly."""

    groups: tuple[tuple[Option, ...], ...]
    policy: ZonePolicy


def tables(devices: Devices, snapshot: Snapshot, shapes: Sequence[Shape]) -> tuple[Zones, ...]:
    """One per attribute in which devices of some class must agree."""
    bonds: dict[Name, list[_Bond | None]] = {}
    for c, (shape, ask) in enumerate(zip(shapes, devices.asks, strict=True)):
        for name, bond in _bonds(shape, ask).items():
            bonds.setdefault(name, [None] * len(shapes))[c] = bond
    return tuple(_table(devices, snapshot, name, bonds[name]) for name in sorted(bonds))


def _bonds(shape: Shape, ask: DeviceAsk) -> dict[Name, _Bond]:
    """Per attribute, what of a class is bound by it."""
    found: dict[Name, list[tuple[Option, ...]]] = {}
    every: list[Option] = []
    for claim in ask:
        if claim.shared:
            continue  # its devices are not of this pod alone
        for name, requests in claim.match:
            bound = tuple(
                r.options[0]
                for r in claim.requests
                if not requests or r.name in requests or f"{r.name}/{r.options[0].name}" in requests
            )
            found.setdefault(name, []).append(bound)
        every += [r.options[0] for r in claim.requests]
    bonds = {name: _Bond(tuple(groups), ZonePolicy.SINGLE) for name, groups in found.items()}
    policy = max((_OWN[p] for p in shape.zones.policies if p in _OWN), default=ZonePolicy.NONE)
    if policy and every:
        bonds[cells.NUMA] = _Bond((tuple(every),), policy)
    if zone_asks.NVLINK in shape.zones.policies:
        gpus = tuple(o for o in every if "gpu" in o.predicate.device_class.lower())
        if gpus:
            bonds[cells.LINKS] = _Bond((gpus,), ZonePolicy.SINGLE)
    return bonds


def _table(
    devices: Devices, snapshot: Snapshot, name: Name, bonds: Sequence[_Bond | None]
) -> Zones:
    supply, offer = devices.supply, devices.offer
    rows = [row for row, _ in offer.unions]
    place = {row: a for a, row in enumerate(rows)}
    zone = _zones(devices, name)
    count = np.zeros(len(supply.nodes), dtype=np.int32)
    for d, z in zone.items():
        n = int(supply.node[d])
        count[n] = max(int(count[n]), z + 1)
    shape = (max(int(count.max(initial=0)), 1), len(rows), len(supply.nodes))
    allocatable: NDArray[np.int64] = np.zeros(shape, dtype=np.int64)
    taken = np.zeros_like(allocatable)
    loose = set(devices.loose)
    for d, z in zone.items():
        for row in offer.takes(d):
            if row in place:
                allocatable[z, place[row], supply.node[d]] += 1
                taken[z, place[row], supply.node[d]] += d in loose
    holds = _holds(devices, zone, place)
    for task, z, a, amount in holds:
        if int(snapshot.tasks.state[task]) in _STAYING:
            taken[z, a, snapshot.tasks.node[task]] += amount
    columns = np.array(holds, dtype=np.int64).reshape(-1, 4).T
    units = [
        _units(devices, ask, bond, rows) for ask, bond in zip(devices.asks, bonds, strict=True)
    ]
    own = [_policy(ask, bond) for ask, bond in zip(devices.asks, bonds, strict=True)]
    return Zones(
        rows=tuple(devices.first + row for row in rows),
        count=count,
        policy=np.zeros(len(supply.nodes), dtype=np.int8),
        per_container=np.ones(len(supply.nodes), dtype=np.bool_),
        allocatable=allocatable,
        available=allocatable - taken,
        aware=np.broadcast_to(count > 0, shape[1:]).copy(),
        pod_unit=tuple(one[0] if one else None for one in units),
        units=tuple(units),
        own_policy=np.array(own, dtype=np.int8),
        hold_task=columns[0].astype(np.int32),
        hold_zone=columns[1].astype(np.int32),
        hold_row=columns[2].astype(np.int32),
        hold_amount=columns[3].copy(),
    )


def _zones(devices: Devices, name: Name) -> dict[int, int]:
    """Zone of each local device that has the attribute: the place of its value on its node."""
    found: dict[int, int] = {}
    supply = devices.supply
    for n in range(len(supply.nodes)):
        values = {d: cells.value(supply.devices[d], name) for d in supply.local(n)}
        stated = {d: v for d, v in values.items() if v is not None}
        order = {repr(v): z for z, v in enumerate(sorted(stated.values(), key=_order))}
        place = {text: z for z, text in enumerate(dict.fromkeys(order))}
        found |= {d: place[repr(v)] for d, v in stated.items()}
    return found


def _order(value: object) -> tuple[bool, int, str]:
    number = isinstance(value, int)
    return not number, int(value) if isinstance(value, int) else 0, repr(value)


def _holds(
    devices: Devices, zone: dict[int, int], place: dict[int, int]
) -> list[tuple[int, int, int, int]]:
    """(task, zone, row of the table, devices) of placed pods."""
    found: dict[tuple[int, int, int], int] = {}
    for task, held in devices.held.items():
        for d in held:
            for row in devices.offer.takes(d) if d in zone else ():
                if row in place:
                    key = task, zone[d], place[row]
                    found[key] = found.get(key, 0) + 1
    return [(*key, amount) for key, amount in sorted(found.items())]


def _units(
    devices: Devices, ask: DeviceAsk, bond: _Bond | None, rows: Sequence[int]
) -> tuple[Unit, ...]:
    """What of a class goes together; () = it holds no devices."""
    if bond is None:
        every = [r.options[0] for claim in ask if not claim.shared for r in claim.requests]
        groups: tuple[tuple[Option, ...], ...] = (tuple(every),)
    else:
        groups = bond.groups
    found: list[Unit] = []
    for group in groups:
        options = [o for o in group if not o.admin and o.count != ALL]
        charge = devices.offer.charge(options)
        want = tuple(charge.get(row, 0) for row in rows)
        if any(want):
            found.append(Unit(want))
    return tuple(found)


def _policy(ask: DeviceAsk, bond: _Bond | None) -> int:
    if bond is not None:
        return int(bond.policy)
    return int(ZonePolicy.BEST_EFFORT if ask else ZonePolicy.NONE)

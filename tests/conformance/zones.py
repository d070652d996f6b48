"""Recorded NUMA zones as a table of the snapshot, and what a plan predicts of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kai_ray.scheduler.plan import Plan
from kai_ray.scheduler.snapshot import ALLOCATED, Tasks, TaskState
from kai_ray.scheduler.zones.facts import Unit, ZonePolicy, Zones
from tests.conformance.verdict import Case

#: (zone, resource, amount): what a pod holds.
Held = tuple[tuple[int, str, int], ...]

_POLICIES = {
    "none": ZonePolicy.NONE,
    "best-effort": ZonePolicy.BEST_EFFORT,
    "restricted": ZonePolicy.RESTRICTED,
    "single-numa-node": ZonePolicy.SINGLE,
}
#: Recorded names of amounts -> resource rows of the snapshot; others go by their own name.
_ROWS = {"cpu_milli": "cpu", "memory_bytes": "memory", "gpus": "gpu"}
#: Amounts that only guaranteed pods have aligned.
_NO_DEVICES = ("cpu_milli", "memory_bytes")


def recorded(task: dict[str, Any]) -> Held:
    """Where a task sits as the case begins."""
    return tuple(
        (piece["zone"], name, int(amount))
        for piece in task.get("numa_placement") or ()
        for name, amount in sorted(piece["amount"].items())
    )


def kind(task: dict[str, Any]) -> bool:
    """What tells classes apart besides their amounts: guaranteed pods are aligned in full."""
    return task.get("qos_class") == "Guaranteed"


def table(
    case: Case,
    nodes: Sequence[dict[str, Any]],
    resources: Sequence[str],
    kinds: Sequence[tuple[np.ndarray, bool]],
    tasks: Tasks,
    held: Sequence[Held],
) -> Zones | None:
    """The zones of all nodes; `kinds` are (request [R], guaranteed) per class."""
    stated = [node.get("numa") for node in nodes]
    if not any(stated):
        return None
    arguments = _arguments(case)
    ignored = {name.strip() for name in arguments.get("ignoreList", "").split(",")}
    names = sorted(
        {n for numa in stated if numa for z in numa["zones"] for n in z["allocatable"]} - ignored
    )
    names = [name for name in names if _ROWS.get(name, name) in resources]
    most = max(len(numa["zones"]) for numa in stated if numa)
    shape = (most, len(names), len(nodes))
    allocatable, available = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    aware = np.zeros(shape[1:], dtype=bool)
    for n, numa in enumerate(stated):
        for z, zone in enumerate(numa["zones"] if numa else ()):
            for a, name in enumerate(names):
                allocatable[z, a, n] = zone["allocatable"].get(name, 0)
                available[z, a, n] = zone["available"].get(name, 0)
                aware[a, n] |= name in zone["allocatable"]
    holds = list(_holds(names, held))
    if arguments.get("reconstructAvailable", "true") != "false":
        available = allocatable.copy()
        staying = np.isin(tasks.state, [int(s) for s in (*ALLOCATED, TaskState.STUCK)])
        for task, zone, row, amount in holds:
            if staying[task]:
                available[zone, row, tasks.node[task]] -= amount
    rows = [list(resources).index(_ROWS.get(name) or name) for name in names]
    units = [_unit(names, rows, request, guaranteed) for request, guaranteed in kinds]
    columns = np.array(holds, dtype=np.int64).reshape(-1, 4).T
    return Zones(
        rows=tuple(rows),
        count=np.array([len(numa["zones"]) if numa else 0 for numa in stated], dtype=np.int32),
        policy=np.array([_policy(numa) for numa in stated], dtype=np.int8),
        per_container=np.array([bool(n) and n["scope"] != "pod" for n in stated], dtype=bool),
        allocatable=allocatable,
        available=available,
        aware=aware,
        pod_unit=tuple(units),
        units=tuple(() if unit is None else (unit,) for unit in units),  # one container each
        own_policy=np.zeros(len(units), dtype=np.int8),
        hold_task=columns[0].astype(np.int32),
        hold_zone=columns[1].astype(np.int32),
        hold_row=columns[2].astype(np.int32),
        hold_amount=columns[3],
    )


def predicted(plan: Plan, resources: Sequence[str]) -> dict[int, Held]:
    """Per task row of a plan, the zones that it is to get."""
    names = {row: name for name, row in _ROWS.items()}
    found: dict[int, list[tuple[int, str, int]]] = {}
    columns = (plan.zone_task, plan.zone_index, plan.zone_resource, plan.zone_amount)
    for task, zone, row, amount in zip(*(c.tolist() for c in columns), strict=True):
        resource = str(resources[row])
        name = names.get(resource, resource)
        found.setdefault(task, []).append((zone, name, amount))
    return {task: tuple(pieces) for task, pieces in found.items()}


def problems(case: Case, zones: Mapping[str, tuple[str, str | None, Held]]) -> Iterator[str]:
    """Differences from the expected zones; `zones` has (status, node, held) per task."""
    for job in case["cluster"]["jobs"]:
        for task in job["tasks"]:
            for want in (
                case["expect"]["jobs"].get(job["name"]),
                case["expect"]["tasks"].get(task["name"]),
            ):
                expected = (want or {}).get("numa_zones")
                got = sorted({zone for zone, _, _ in zones[task["name"]][2]})
                if expected is not None and got != sorted(expected):
                    yield f"{task['name']}: in NUMA zones {got}, wanted {expected}"
    for node in case["cluster"]["nodes"]:
        wanted = (case["expect"]["nodes"].get(node["name"]) or {}).get("numa_zones_available") or {}
        for zone, amounts in wanted.items():
            for name, amount in amounts.items():
                left = node["numa"]["zones"][int(zone)]["allocatable"].get(name, 0)
                for status, at, held in zones.values():
                    if at == node["name"] and status in _STAYING:
                        left -= sum(h[2] for h in held if h[:2] == (int(zone), name))
                if left != amount:
                    yield f"{node['name']}: zone {zone} has {left} {name} left, wanted {amount}"


_STAYING = ("Allocated", "Pipelined", "Binding", "Bound", "Running", "StuckInReleasing")


def _arguments(case: Case) -> dict[str, str]:
    found = [p["arguments"] for p in case["config"]["plugins"] if p["name"] == "numa"]
    return {key: str(value) for key, value in ((found[0] or {}) if found else {}).items()}


def _policy(numa: dict[str, Any] | None) -> ZonePolicy:
    return _POLICIES.get(numa["policy"], ZonePolicy.NONE) if numa else ZonePolicy.NONE


def _unit(
    names: Sequence[str], rows: Sequence[int], request: np.ndarray, guaranteed: bool
) -> Unit | None:
    """Guaranteed pods are aligned in all they ask, whole CPUs only; others in their devices."""
    want = [int(request[row]) for row in rows]
    for a, name in enumerate(names):
        if (not guaranteed and name in _NO_DEVICES) or (name == "cpu_milli" and want[a] % 1000):
            want[a] = 0
    return Unit(tuple(want)) if guaranteed or any(want) else None


def _holds(names: Sequence[str], held: Sequence[Held]) -> Iterator[tuple[int, int, int, int]]:
    for task, pieces in enumerate(held):
        for zone, name, amount in pieces:
            if name in names:
                yield task, zone, names.index(name), amount

"""Queue objects as one ordered tree; what cannot be part of it is left out and named."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kai_ray.api import labels as names
from kai_ray.api.durations import parse_duration
from kai_ray.cluster.port import Object
from kai_ray.scheduler.snapshot import QUEUE_RESOURCES, Queues

from . import queue_policy
from .pod_rows import created
from .problems import MISREAD, Malformed, Problem, text
from .queue_policy import SILENT, QueuePolicy

DEFAULT_PRIORITY = 100
#: Rows of the queue arrays as `spec.resources` names them, with the unit in ours.
RESOURCES = (("cpu", 1.0), ("memory", 1e6), ("gpu", 1.0))
_LARGEST = 2.0**62


@dataclass(frozen=True, slots=True)
class QueueRow:
    parent: str
    priority: int
    created_s: float
    amounts: tuple[tuple[float, float, float], ...]  # (quota, limit, weight) per resource
    paused: bool
    preempt_min_runtime_s: float | None = None  # None = asks the parent
    reclaim_min_runtime_s: float | None = None
    problem: Problem | None = None
    policy: QueuePolicy = SILENT


@dataclass(frozen=True, slots=True)
class QueueTree:
    queues: Queues
    names: list[str]
    row_of: dict[str, int]
    problems: list[Problem]
    policies: list[QueuePolicy]  # what holds for each, with what it inherits


def read(queue: Object) -> QueueRow:
    """A queue that cannot be read starts nothing, but what runs in it is still counted."""
    meta = queue["metadata"]
    parent = ""
    try:
        spec = queue.get("spec") or {}
        annotations = meta.get("annotations") or {}
        parent = text(spec.get("parentQueue"), "spec.parentQueue")
        return QueueRow(
            parent=parent,
            priority=_priority(spec.get("priority")),
            created_s=created(meta),
            amounts=tuple(
                _amounts((spec.get("resources") or {}).get(name), name, unit)
                for name, unit in RESOURCES
            ),
            paused=annotations.get(names.QUEUE_PAUSED) == "true"
            or names.DRAIN_DEADLINE in annotations,
            policy=queue_policy.read(annotations),
            preempt_min_runtime_s=min_runtime(spec, "preemptMinRuntime"),
            reclaim_min_runtime_s=min_runtime(spec, "reclaimMinRuntime"),
        )
    except MISREAD as error:
        field, mend = (
            (error.field, error.mend)
            if isinstance(error, Malformed)
            else ("spec", "is not of the form of a Queue")
        )
        problem = Problem("Queue", "", meta["name"], field, mend)
        still = ((0.0, -1.0, 0.0),) * QUEUE_RESOURCES
        return QueueRow(parent, DEFAULT_PRIORITY, 0.0, still, True, problem=problem)


def quantity_error(raw: Any) -> str:
    """Why a quota or limit is refused; "" if it is fine."""
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return f"{raw!r} is not a number"
    if math.isnan(raw) or math.isinf(raw):
        return f"{raw!r} is not a finite number: write -1 for unlimited"
    if raw < 0 and raw != -1:
        return f"{raw:g} is negative: write 0 or more, or -1 for unlimited"
    if raw > _LARGEST:
        return f"{raw:g} is too large: the largest is 2^62; write -1 for unlimited"
    return ""


def _amounts(raw: dict[str, Any] | None, name: str, unit: float) -> tuple[float, float, float]:
    found: list[float] = []
    for key in ("quota", "limit", "overQuotaWeight"):
        value = (raw or {}).get(key)
        value = 0 if value is None else value
        why = quantity_error(value)
        if why:
            raise Malformed(f"spec.resources.{name}.{key}", why)
        scaled = unit if key != "overQuotaWeight" and value != -1 else 1.0
        found.append(float(value) * scaled)
    return found[0], found[1], found[2]


def _priority(raw: Any) -> int:
    if raw is None:
        return DEFAULT_PRIORITY
    if not isinstance(raw, int) or isinstance(raw, bool) or abs(raw) > 2**31 - 1:
        raise Malformed("spec.priority", f"{raw!r} is not a 32-bit integer")
    return raw


def min_runtime(spec: dict[str, Any], key: str) -> float | None:
    """Seconds for which a gang that has started is safe; raises Malformed."""
    raw = spec.get(key)
    if raw is None:
        return None
    found = parse_duration(raw) if isinstance(raw, str) else None
    if found is None or found < 0:
        raise Malformed(f"spec.{key}", f"{raw!r} is not a duration of 0s or more, such as 10m")
    return found


def cycle_through(start: str, parent_of: dict[str, str]) -> list[str]:
    """The queues of the cycle that `start` is on, or [] if it is on none."""
    path = [start]
    while True:
        parent = parent_of.get(path[-1], "")
        if not parent or parent not in parent_of:
            return []
        if parent == start:
            return path
        if parent in path:
            return []
        path.append(parent)


def build(rows: dict[str, QueueRow]) -> QueueTree:
    """Parents before children, equals by name."""
    children: dict[str, list[str]] = {}
    for name in sorted(rows):
        children.setdefault(rows[name].parent, []).append(name)
    order: list[str] = list(children.get("", ()))
    done = 0
    while done < len(order):
        order += children.get(order[done], ())
        done += 1
    row_of = {name: i for i, name in enumerate(order)}
    problems = [r.problem for r in rows.values() if r.problem is not None]
    problems += _outside(rows, row_of)
    problems.sort()
    stated = {name: (rows[name].parent, rows[name].policy) for name in order}
    policies = queue_policy.inherited(stated, order)
    return QueueTree(_arrays(rows, order, row_of), order, row_of, problems, policies)


def _outside(rows: dict[str, QueueRow], row_of: dict[str, int]) -> list[Problem]:
    found: list[Problem] = []
    parent_of = {name: row.parent for name, row in rows.items()}
    for name in rows:
        if name in row_of:
            continue
        loop = cycle_through(name, parent_of)
        if loop:
            text = " -> ".join([*loop, name])
            mend = f"the queues form a cycle ({text}): give one of them another parent"
        elif parent_of[name] not in rows:
            mend = f"queue {parent_of[name]!r} does not exist: create it or name another parent"
        else:
            mend = f"queue {parent_of[name]!r} is itself not part of the tree: mend it first"
        found.append(Problem("Queue", "", name, "spec.parentQueue", mend))
    return found


def _arrays(rows: dict[str, QueueRow], order: list[str], row_of: dict[str, int]) -> Queues:
    count = len(order)
    amounts = np.array([rows[n].amounts for n in order], dtype=np.float64)
    amounts = amounts.reshape(count, QUEUE_RESOURCES, 3)
    by_name = np.argsort(np.array(order, dtype=object), kind="stable") if count else []
    rank = np.empty(count, dtype=np.int32)
    rank[by_name] = np.arange(count, dtype=np.int32)
    parent = np.array([row_of.get(rows[n].parent, -1) for n in order], dtype=np.int32)
    paused = np.zeros(count, dtype=np.bool_)
    for i, name in enumerate(order):
        paused[i] = rows[name].paused or (parent[i] >= 0 and paused[parent[i]])
    return Queues(
        parent=parent,
        priority=np.array([rows[n].priority for n in order], dtype=np.int32),
        created_s=np.array([rows[n].created_s for n in order], dtype=np.float64),
        rank=rank,
        quota=np.ascontiguousarray(amounts[:, :, 0].T),
        limit=np.ascontiguousarray(amounts[:, :, 1].T),
        weight=np.ascontiguousarray(amounts[:, :, 2].T),
        usage=np.zeros((QUEUE_RESOURCES, count)),
        paused=paused,
        **_min_runtimes([rows[name] for name in order]),
    )


def _min_runtimes(rows: list[QueueRow]) -> dict[str, Any]:
    """The columns that any queue states; NaN = ask the parent."""
    columns = {
        "preempt_min_runtime_s": [row.preempt_min_runtime_s for row in rows],
        "reclaim_min_runtime_s": [row.reclaim_min_runtime_s for row in rows],
    }
    return {
        name: np.array([math.nan if v is None else v for v in values])
        for name, values in columns.items()
        if any(v is not None for v in values)
    }

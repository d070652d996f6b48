"""Recorded queues as arrays. Shared by the vectors of single rules and by whole scenarios."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kai_ray.scheduler.shares.books import QueueBooks
from kai_ray.scheduler.shares.row import QueueRow, queue_rows
from kai_ray.scheduler.snapshot import Queues

#: The recorded names of the resource rows, in the order of the core.
RESOURCES = ("cpu_milli", "memory_bytes", "gpu")


def parents_first(queues: Mapping[str, Any]) -> list[str]:
    """Names of all queues whose ancestors exist, parents before children."""
    ordered: list[str] = []
    level: list[str | None] = [None]
    while level:
        rows = [name for above in level for name, q in queues.items() if q["parent"] == above]
        ordered += rows
        level = list(rows)
    return ordered


def amounts(queues: Mapping[str, Any], names: list[str], field: str) -> np.ndarray:
    """[3, Q] one recorded field; null means unlimited. A resource that is not recorded is 0."""
    return np.array(
        [[number(queues[n].get(r, {}).get(field, 0)) for n in names] for r in RESOURCES],
        dtype=np.float64,
    ).reshape(len(RESOURCES), len(names))


def number(value: float | None) -> float:
    return -1.0 if value is None else float(value)


def _seconds(queues: Mapping[str, Any], names: list[str], field: str) -> np.ndarray:
    """[Q] a recorded time; NaN where none is stated."""
    return np.array([np.nan if queues[n].get(field) is None else queues[n][field] for n in names])


def queue_arrays(
    queues: Mapping[str, Any],
    names: list[str],
    quota_field: str = "deserved",
    created: Callable[[Any], float | None] = lambda queue: queue.get("created_offset_seconds"),
) -> Queues:
    """The recorded queues in the order of `names`."""
    row = {name: i for i, name in enumerate(names)}
    by_name = {name: i for i, name in enumerate(sorted(names))}
    return Queues(
        parent=np.array([row.get(queues[n]["parent"], -1) for n in names], dtype=np.int32),
        priority=np.array([queues[n]["priority"] for n in names], dtype=np.int32),
        created_s=np.array([created(queues[n]) or 0.0 for n in names], dtype=np.float64),
        rank=np.array([by_name[n] for n in names], dtype=np.int32),
        quota=amounts(queues, names, quota_field),
        limit=amounts(queues, names, "limit"),
        weight=amounts(queues, names, "over_quota_weight"),
        usage=amounts(queues, names, "usage"),
        paused=np.zeros(len(names), dtype=bool),
        preempt_min_runtime_s=_seconds(queues, names, "preempt_min_runtime_seconds"),
        reclaim_min_runtime_s=_seconds(queues, names, "reclaim_min_runtime_seconds"),
    )


def queue_books_of(recorded: Mapping[str, Any], names: list[str], queues: Queues) -> list[QueueRow]:
    """Rows of queues whose books and fair shares are recorded."""
    books = QueueBooks(
        allocated=amounts(recorded, names, "allocated"),
        non_preemptible=amounts(recorded, names, "allocated_non_preemptible"),
        request=amounts(recorded, names, "request"),
    )
    return queue_rows(queues, books, amounts(recorded, names, "fair_share"))

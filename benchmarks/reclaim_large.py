"""Reclaim for one gang that takes half of a full cluster: T pods of 8 GPUs evict 8T pods."""

from __future__ import annotations

from typing import Any

from benchmarks.cluster import GPUS, JobShape
from benchmarks.evicting import full, measured, two_queues
from benchmarks.measure import Figures

OPTIONS = {"nodes": 500, "tasks": 0}


def sizes(options: dict[str, Any]) -> dict[str, int]:
    return {"nodes": options["nodes"], "tasks": options["tasks"] or options["nodes"] // 2}


def run(figures: Figures, options: dict[str, Any]) -> None:
    size = sizes(options)
    gang = JobShape("large", "lender", 0, pods=size["tasks"], gpus=GPUS)
    queues = two_queues(0, size["nodes"] * GPUS)
    measured(figures, size["nodes"], queues, [*full(size["nodes"], "borrower"), gang])

"""Reclaim job by job: every running pod makes room for one that waits, all in one cycle."""

from __future__ import annotations

from typing import Any

from benchmarks.cluster import GPUS, JobShape
from benchmarks.evicting import full, measured, two_queues
from benchmarks.measure import Figures

OPTIONS = {"nodes": 100}


def sizes(options: dict[str, Any]) -> dict[str, int]:
    return {"nodes": options["nodes"], "jobs": 2 * options["nodes"] * GPUS}


def run(figures: Figures, options: dict[str, Any]) -> None:
    nodes = options["nodes"]
    count = nodes * GPUS
    waiting = [JobShape(f"waiting-{i}", "lender", i - count) for i in range(count)]
    jobs = [*full(nodes, "borrower"), *waiting]
    measured(figures, nodes, two_queues(0, count), jobs)

"""A whole cycle where half of the jobs run and the other half finds the free room."""

from __future__ import annotations

from typing import Any

from benchmarks.cluster import GPUS, JobShape, queue
from benchmarks.evicting import measured
from benchmarks.measure import Figures

OPTIONS = {"nodes": 500, "jobs": 4000}


def sizes(options: dict[str, Any]) -> dict[str, int]:
    return {"nodes": options["nodes"], "jobs": options["jobs"]}


def run(figures: Figures, options: dict[str, Any]) -> None:
    """Job i runs on node i if i is even: those nodes are full, the others are empty."""
    nodes, jobs = options["nodes"], options["jobs"]
    whole = nodes * GPUS
    queues = [queue(f"dept-{d}", "", whole / 2, 0, 0) for d in "ab"]
    queues += [queue(f"queue-{k}", f"dept-{'ab'[k // 2]}", whole / 4, 1, k) for k in range(4)]
    shapes = [
        JobShape(f"job-{i}", f"queue-{i % 4}", i - jobs, node="" if i % 2 else f"node-{i % nodes}")
        for i in range(jobs)
    ]
    measured(figures, nodes, queues, shapes)

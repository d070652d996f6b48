"""A gang that quotas forbid by one GPU: nothing may change, the sooner that is known the better."""

from __future__ import annotations

from typing import Any

from benchmarks.cluster import GPUS, JobShape
from benchmarks.evicting import full, measured, two_queues
from benchmarks.measure import Figures

OPTIONS = {"nodes": 200, "tasks": 10}


def sizes(options: dict[str, Any]) -> dict[str, int]:
    return {"nodes": options["nodes"], "tasks": options["tasks"]}


def run(figures: Figures, options: dict[str, Any]) -> None:
    nodes, tasks = options["nodes"], options["tasks"]
    gang = JobShape("distributed", "lender", 0, pods=tasks, gpus=GPUS)
    asked = tasks * GPUS
    queues = two_queues(nodes * GPUS - asked + 1, asked)
    measured(figures, nodes, queues, [*full(nodes, "borrower"), gang])

"""Fill an empty cluster with one-GPU jobs: from ready-made objects to a Plan.

The shape is that of KAI's own allocate benchmark: nodes of 8 GPUs, pending jobs of one pod with one
GPU, four queues under two departments. `--gang T` makes each job a gang of T pods.
"""

from __future__ import annotations

from typing import Any

from benchmarks.cluster import GPUS, JobShape, Object, listed, queue, timed
from benchmarks.measure import Figures

OPTIONS = {"nodes": 1000, "jobs": 8000, "gang": 1}


def sizes(options: dict[str, Any]) -> dict[str, int]:
    return {"nodes": options["nodes"], "jobs": options["jobs"], "gang": options["gang"]}


def run(figures: Figures, options: dict[str, Any]) -> None:
    timed(figures, objects(options["nodes"], options["jobs"], options["gang"]))


def objects(nodes: int, jobs: int, gang: int) -> list[Any]:
    """The cluster as the API server would list it."""
    shapes = [JobShape(f"job-{i}", f"queue-{i % 4}", i - jobs, gang) for i in range(jobs)]
    return listed(nodes, _queues(nodes), shapes)


def _queues(nodes: int) -> list[Object]:
    whole = nodes * GPUS
    departments = [queue(f"dept-{d}", "", whole / 2, 0, 0) for d in "ab"]
    leaves = [queue(f"queue-{k}", f"dept-{'ab'[k // 2]}", whole / 4, 1, k) for k in range(4)]
    return departments + leaves

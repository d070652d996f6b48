"""The shapes of KAI's benchmarks in which pods may have to leave: from objects to a Plan.

All run the whole cycle of actions.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cluster import GPUS, JobShape, Object, listed, queue, timed
from benchmarks.measure import Figures


def measured(
    figures: Figures, nodes: int, queues: Sequence[Object], jobs: Sequence[JobShape]
) -> None:
    """Prepares the objects, then times reading them and deciding."""
    timed(figures, listed(nodes, queues, jobs))


def full(nodes: int, queue_name: str) -> list[JobShape]:
    """Every GPU held by a job of one pod, spread over the nodes in turn."""
    count = nodes * GPUS
    return [
        JobShape(f"running-{i}", queue_name, i - count, node=f"node-{i % nodes}")
        for i in range(count)
    ]


def two_queues(lent: float, owed: float) -> list[Object]:
    """One queue that holds everything and one that waits, with their quotas; no surplus."""
    return [
        queue("top", "", -1, 1, 0),
        queue("lender", "top", owed, 0, 1),
        queue("borrower", "top", lent, 0, 0),
    ]

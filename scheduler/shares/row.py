"""One queue as plain numbers: what order and capacity rules read thousands of times a cycle.

Reading a float out of an array costs more than the rules themselves, so the few amounts of a queue
are unpacked once and the two that move while a plan is made are kept here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..snapshot import Floats, Queues
from .books import QueueBooks
from .fair_share import allocatable_share

Amounts = tuple[float, float, float]
NOTHING: Amounts = (0.0, 0.0, 0.0)


@dataclass(slots=True)
class QueueRow:
    """A queue while a plan is made. Amounts are (millicores, bytes, GPUs), -1 = unlimited.

    `allocated` and `non_preemptible` include descendants and move with each placement; the rest
    stays as it was at the start of the cycle.
    """

    queue: int
    parent: int
    priority: int
    created_s: float
    rank: int
    quota: Amounts
    limit: Amounts
    fair_share: Amounts
    allocatable: Amounts  # see allocatable_share
    allocated: Amounts = NOTHING
    non_preemptible: Amounts = NOTHING

    def copy(self) -> QueueRow:
        """The queue as it is now."""
        return replace(self)

    def charge(self, amount: Amounts, firm: bool, times: float = 1.0) -> None:
        """Books `amount` x `times` (negative gives back); `firm` = of a non-preemptible gang."""
        a, b, c = amount
        x, y, z = self.allocated
        self.allocated = (x + a * times, y + b * times, z + c * times)
        if firm:
            x, y, z = self.non_preemptible
            self.non_preemptible = (x + a * times, y + b * times, z + c * times)


def queue_rows(queues: Queues, books: QueueBooks, share: Floats) -> list[QueueRow]:
    """A row per queue, in the order of `queues`."""
    columns = [
        [(a, b, c) for a, b, c in array.T.tolist()]
        for array in (
            queues.quota,
            queues.limit,
            share,
            allocatable_share(queues, share),
            books.allocated,
            books.non_preemptible,
        )
    ]
    scalars = zip(
        range(queues.count),
        queues.parent.tolist(),
        queues.priority.tolist(),
        queues.created_s.tolist(),
        queues.rank.tolist(),
        strict=True,
    )
    return [
        QueueRow(*left, *right)
        for left, right in zip(scalars, zip(*columns, strict=True), strict=True)
    ]

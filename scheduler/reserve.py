"""Places that queues keep in reserve: others may take what is free only as far as these remain.

What: a queue with a reserve can always start so many pods of so many GPUs in or below it. What it
does not use yet are *places*: GPUs of one node that are free or about to be. A placement of others
may not leave fewer places than there were, up to the number promised. Where it would, it is tried
again with the places set aside: first on the nodes with the fewest free GPUs, then on the emptiest.
Why places: as a sum, eight GPUs in reserve may be eight single ones on eight nodes, and the pod of
two GPUs that they were meant for waits.
Limits: a reserve evicts nobody. Places that are not free are made as others end, or by reclaim
where the queue's quota covers them. Only GPUs are kept, not processors and memory. Nodes that are
not ready, cordoned or outside the queue's node pools and GPU types make no places. Several reserves
are laid out one after the other, the largest places first, which need not be the best way.
Cost: per attempt with GPUs a few vector steps per reserve; nothing where no queue states one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .filters.labels import within
from .ledger import Ledger
from .plan import QueueCause
from .reason import Reason
from .snapshot import GPU, QUEUE_RESOURCES, Bools, Ints

if TYPE_CHECKING:
    from .placing import Shortfall
    from .session import Placed

#: Row of the queue amounts.
QUEUE_GPU = QUEUE_RESOURCES - 1
_EPSILON = 1e-9


class _Row(NamedTuple):
    queue: int
    gpus: int
    size: int  # GPUs of one place
    above: int  # the nearest queue above that has a reserve too; -1 = none
    nodes: Bools  # [N] of the ledger: where places count


class _Layout(NamedTuple):
    kept: Ints  # [N] GPUs of each node that are set aside
    missing: int  # GPUs of places for which there is no room
    worst: int  # the queue to which most is promised; -1 = nothing is


class Reserves:
    """The places promised, against the ledger as it stands at each question."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        stated = {one.queue: one for one in ledger.snapshot.reserves if one.gpus > 0}
        usable = ledger.nodes.ready & ~ledger.nodes.cordoned
        self._rows: list[_Row] = []
        for queue, one in stated.items():
            nodes = usable.copy()
            for selector in one.nodes:
                nodes &= within(ledger.nodes, selector)
            above = next((q for q in ledger.path(queue)[1:] if q in stated), -1)
            self._rows.append(_Row(queue, one.gpus, one.size, above, nodes))
        self._rows.sort(key=lambda row: (-row.size, -row.queue))

    def __bool__(self) -> bool:
        return bool(self._rows)

    def others(self, path: tuple[int, ...]) -> tuple[int, ...]:
        """The reserves that a gang of the queues on `path` has to leave alone."""
        return tuple(row.queue for row in self._rows if row.queue not in path)

    def missing(self, path: tuple[int, ...]) -> int:
        """GPUs of places promised to others than `path` that no node has free."""
        return self._lay_out(path, tight=True).missing

    def beside(
        self,
        path: tuple[int, ...],
        asked: float,
        place: Callable[[], list[Placed] | Shortfall],
        missing: int | None = None,
    ) -> list[Placed] | Shortfall | QueueCause:
        """What `place` books, so that others keep their places; else the queue that refuses.

        `asked` GPUs in all. `missing` is how much may be missing after it; by default as much as
        before.
        """
        before = self.missing(path) if missing is None else missing
        ledger = self._ledger
        mark = ledger.trial()
        placed = place()
        if not isinstance(placed, list) or self.missing(path) <= before:
            return placed
        ledger.roll_back(mark)
        for tight in (True, False):
            kept = self._lay_out(path, tight).kept
            free = np.minimum(kept, np.maximum(ledger.idle[GPU], 0))
            self._set_aside(free, kept - free)
            placed = place()
            self._set_aside(-free, free - kept)
            if isinstance(placed, list) and self.missing(path) <= before:
                return placed
            ledger.roll_back(mark)
        return self._cause(path, asked)

    def _set_aside(self, idle: Ints, releasing: Ints) -> None:
        nodes = np.flatnonzero(idle + releasing).tolist()
        self._ledger.idle[GPU] -= idle
        self._ledger.releasing[GPU] -= releasing
        self._ledger.changed += nodes

    def _cause(self, path: tuple[int, ...], asked: float) -> QueueCause:
        worst = self._lay_out(path, tight=True).worst
        row = next(row for row in self._rows if row.queue == worst)
        used = self._ledger.queues[worst].allocated[QUEUE_GPU]
        reason = Reason.RESERVED_FOR_OTHERS
        return QueueCause(reason, worst, GPU, asked, used, float(row.gpus), row.size)

    def _lay_out(self, path: tuple[int, ...], tight: bool) -> _Layout:
        """Where the places are; `tight` = on nodes with few free GPUs first, else on the emptiest.

        Equal nodes in the order of their names.
        """
        ledger = self._ledger
        free: Ints = np.maximum(ledger.idle[GPU] + ledger.releasing[GPU], 0)
        kept = np.zeros_like(free)
        missing, worst, most = 0, -1, 0
        for row, size, places in self._promised(path):
            if size * places > most:
                worst, most = row.queue, size * places
            room = np.where(row.nodes, free // size, 0)
            order = np.argsort(free if tight else -free, kind="stable")
            before = np.cumsum(room[order]) - room[order]
            taken = np.zeros_like(free)
            taken[order] = np.clip(places - before, 0, room[order]) * size
            free, kept = free - taken, kept + taken
            missing += size * places - int(taken.sum())
        return _Layout(kept, missing, worst)

    def _promised(self, path: tuple[int, ...]) -> Iterator[tuple[_Row, int, int]]:
        """(reserve, GPUs of a place, places) that queues outside `path` do not use yet."""
        left = {row.queue: self._unused(row) for row in self._rows if row.queue not in path}
        below = dict.fromkeys(left, 0)
        for row in sorted(self._rows, key=lambda r: -r.queue):  # children come after their parents
            if row.queue in left and row.above in left:  # a reserve includes those below it
                below[row.above] += max(left[row.queue], below[row.queue])
        for row in self._rows:
            if row.queue in left:
                whole, rest = divmod(max(left[row.queue] - below[row.queue], 0), row.size)
                if whole:
                    yield row, row.size, whole
                if rest:
                    yield row, rest, 1

    def _unused(self, row: _Row) -> int:
        used = self._ledger.queues[row.queue].allocated[QUEUE_GPU]
        return max(int(row.gpus - used + _EPSILON), 0)

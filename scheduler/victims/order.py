"""Who is evicted next: the order of queues and gangs turned round.

Source: KAI 0.17, job order in victim mode. The queue that stands last by the queue order, what was
taken from it already counting as given back, gives its last gang. A gang comes in steps: one pod of
its surplus, then it competes again with what is left. The minimum of a gang of last resort comes
after all that others give, whatever their queues; among several the same order holds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum

from ..orders.queue_order import Standing, compare_standing
from ..shares.row import NOTHING, Amounts, QueueRow
from .books import Taken, Victim, VictimBooks
from .reclaimable import plus
from .steps import Step


class Spare(IntEnum):
    """What an eviction may take of a gang."""

    NOTHING = 0
    SURPLUS = 1  # what exceeds its minimum
    ALL = 2


class _Side:
    """A queue in the tree: a heap of children, or, in a leaf, its gangs in order."""

    __slots__ = ("at", "back", "children", "gangs", "parent", "popped", "row", "standing")

    def __init__(self, row: QueueRow, parent: _Side | None) -> None:
        self.row, self.parent = row, parent
        self.children: list[_Side] = []
        self.gangs: list[Victim] = []  # shared with the books: not to be changed here
        self.at = 0  # how many of them have been popped
        self.back: list[Victim] = []  # a heap of those that came back with what is left
        self.popped: Amounts = NOTHING
        self.standing: Standing = (False, False, 0, False, 0.0, 0.0)

    def __lt__(self, other: _Side) -> bool:
        return compare_standing(self.row, self.standing, other.row, other.standing) > 0

    def head(self) -> Victim | None:
        """The next gang of a leaf."""
        if self.at < len(self.gangs):
            first = self.gangs[self.at]
            return min(first, self.back[0]) if self.back else first
        return self.back[0] if self.back else None

    def pop(self) -> None:
        if self.back and self.head() is self.back[0]:
            heapq.heappop(self.back)
        else:
            self.at += 1


class VictimOrder:
    """Eviction steps, one after the other, of gangs that `spare` gives up."""

    def __init__(
        self,
        books: VictimBooks,
        leaves: Iterable[int],
        spare: Callable[[int], Spare],
        admits: Callable[[Step], bool],
    ) -> None:
        """`spare(gang)` says what may be taken, `admits(step)` whether it may be after the rest."""
        self._books, self._spare, self._admits = books, spare, admits
        self._taken: Taken = {}
        self._last = False  # whether minima of last resort come now
        a, b, c = books.session.total.tolist()
        self._total: Amounts = (a, b, c)
        self._tops: list[_Side] = []
        self._popped: dict[int, Amounts] = {}
        self._resort: dict[int, list[int]] = {}
        """Per leaf queue, gangs of last resort whose minimum has been passed over."""
        self._build({leaf: books.victims[leaf] for leaf in leaves})

    def _build(self, victims: Mapping[int, list[Victim]]) -> None:
        rows, sides = self._books.ledger.queues, dict[int, _Side]()

        def side(queue: int) -> _Side:
            found = sides.get(queue)
            if found is None:
                row = rows[queue]
                parent = side(row.parent) if row.parent >= 0 else None
                found = sides[queue] = _Side(row, parent)
                (self._tops if parent is None else parent.children).append(found)
            return found

        for leaf, gangs in victims.items():
            side(leaf).gangs = gangs
            side(leaf).popped = self._popped.get(leaf, NOTHING)
        for found in sorted(sides.values(), key=lambda s: s.row.queue, reverse=True):
            heapq.heapify(found.children)
            self._stand(found)
        heapq.heapify(self._tops)

    def next(self) -> Step | None:
        """The next step; None when nobody is left."""
        while self._tops or self._resort:
            if not self._tops:
                self._last = True
                self._build({leaf: self._keyed(gangs) for leaf, gangs in self._resort.items()})
                self._resort = {}
            side = self._tops[0]
            while side.children:
                side = side.children[0]
            step = self._step_of(side)
            self._sift(side)
            if step is not None:
                return step
        return None

    def _keyed(self, gangs: Iterable[int]) -> list[Victim]:
        return sorted((self._books.victim_key(gang, self._taken), gang) for gang in gangs)

    def _step_of(self, side: _Side) -> Step | None:
        head = side.head()
        if head is None:
            return None
        side.pop()
        gang = head[1]
        spare = self._spare(gang)
        if spare is Spare.NOTHING:
            return None
        step = self._books.step(gang, self._taken)
        if step is None or (step.core and spare is not Spare.ALL):
            return None
        if step.core and self._books.last_resort[gang] and not self._last:
            self._resort.setdefault(side.row.queue, []).append(gang)
            return None
        if not self._admits(step):
            return None
        for leaf in step.leaves:
            self._taken[leaf] = self._taken.get(leaf, 0) + 1
        side.popped = self._popped[side.row.queue] = plus(side.popped, step.amount)
        if not step.core:
            heapq.heappush(side.back, (self._books.victim_key(gang, self._taken), gang))
        return step

    def _sift(self, side: _Side | None) -> None:
        """Restores the heaps above the leaf that was popped from."""
        while side is not None:
            heap = self._tops if side.parent is None else side.parent.children
            if not side.children and side.head() is None:
                heapq.heappop(heap)
            elif len(heap) > 1:
                self._stand(side)
                heapq.heapreplace(heap, side)
            side = side.parent

    def _stand(self, side: _Side) -> None:
        leaf = side
        while leaf.children:
            leaf = leaf.children[0]
        head = leaf.head()
        given = plus(leaf.popped, self._books.holds(head[1])) if head else leaf.popped
        order = self._books.session.policy.queue_order
        side.standing = order(side.row, NOTHING, self._total, given)

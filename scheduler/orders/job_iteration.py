"""Which gang is next: a tree of queues, each a heap of its children, each leaf a heap of its gangs.

A queue stands for its best gang: of its best child, recursively. Giving a gang its place changes
the books of one leaf and its ancestors, and those are the first of their heaps at that moment, so
one sift per level keeps the whole order exact: a step costs O(depth * log width).
Source: KAI 0.17, job order by queue.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from ..shares.row import NOTHING, Amounts, QueueRow
from .job_order import JobKey
from .queue_order import Standing, compare_standing

#: (key, gang) in the heap of a leaf.
Job = tuple[JobKey, int]


class _Place:
    """A queue in the tree: a heap of children, or, in a leaf, of gangs."""

    __slots__ = ("children", "jobs", "parent", "row", "standing")

    def __init__(self, row: QueueRow, parent: _Place | None) -> None:
        self.row, self.parent = row, parent
        self.children: list[_Place] = []
        self.jobs: list[Job] = []
        self.standing: Standing = (False, False, 0, False, 0.0, 0.0)

    def __lt__(self, other: _Place) -> bool:
        if self.standing != other.standing:
            return self.standing < other.standing
        return compare_standing(self.row, self.standing, other.row, other.standing) < 0


class JobIteration:
    """The gangs to try, best first, by the books as they are at each step."""

    def __init__(
        self,
        rows: list[QueueRow],
        total: Amounts,
        jobs: dict[int, list[Job]],
        need: Callable[[int], Amounts],
        standing: Callable[[QueueRow, Amounts, Amounts, Amounts], Standing],
    ) -> None:
        """`jobs` per leaf queue, each list sorted; `need(gang)` is what its next attempt takes.

        `standing(row, need, total, nothing)` gives the value by which sibling queues are ordered.
        """
        self._total, self._need, self._standing = total, need, standing
        self._tops: list[_Place] = []
        self._leaf: _Place | None = None  # the leaf that was popped from last, not sifted yet
        self._build(rows, jobs)

    def _build(self, rows: list[QueueRow], jobs: dict[int, list[Job]]) -> None:
        places: dict[int, _Place] = {}

        def place(queue: int) -> _Place:
            found = places.get(queue)
            if found is None:
                row = rows[queue]
                parent = place(row.parent) if row.parent >= 0 else None
                found = places[queue] = _Place(row, parent)
                (self._tops if parent is None else parent.children).append(found)
            return found

        for queue, waiting in jobs.items():
            if waiting:
                place(queue).jobs = waiting
        for found in sorted(places.values(), key=lambda p: p.row.queue, reverse=True):
            heapq.heapify(found.children)  # children come after their parents in the rows
            self._stand(found)
        heapq.heapify(self._tops)

    def pop(self) -> int:
        """Takes out the next gang; -1 when none is left."""
        self._sift()
        if not self._tops:
            return -1
        place = self._tops[0]
        while place.children:
            place = place.children[0]
        self._leaf = place
        return heapq.heappop(place.jobs)[1]

    def push(self, key: JobKey, gang: int) -> None:
        """Puts the gang that was popped last back into its queue."""
        assert self._leaf is not None, "push follows pop"
        heapq.heappush(self._leaf.jobs, (key, gang))

    def _sift(self) -> None:
        """Restores the heaps above the leaf that was popped from."""
        place, self._leaf = self._leaf, None
        while place is not None:
            heap = self._tops if place.parent is None else place.parent.children
            if not place.jobs and not place.children:
                heapq.heappop(heap)
            elif len(heap) > 1:
                self._stand(place)
                heapq.heapreplace(heap, place)
            place = place.parent

    def _stand(self, place: _Place) -> None:
        best = place
        while best.children:
            best = best.children[0]
        need = self._need(best.jobs[0][1]) if best.jobs else NOTHING
        place.standing = self._standing(place.row, need, self._total, NOTHING)

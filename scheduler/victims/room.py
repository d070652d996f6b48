"""Would an attempt have room if these pods left: sums over nodes, no placing.

For an attempt of one class whose copies on several nodes may be added up the sum is exact, for any
other it only refuses. More pods that leave never turn a yes into a no, so the shortest prefix of an
order is found by doubling and halving.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..actions.attempt import Attempt
from ..filters.resources import copies
from ..fit import Fit
from ..shares.row import Amounts
from ..snapshot import GPU, UNLIMITED, Bools, Ints
from ..topology.freeing import WholeDomain
from .books import VictimBooks
from .reclaimable import total
from .steps import Step


class Room:
    """The room that one attempt asks for."""

    def __init__(
        self,
        books: VictimBooks,
        path: tuple[int, ...],
        attempt: Attempt,
        bound: bool = False,
        whole: WholeDomain | None = None,
    ) -> None:
        """`path` is that of the gang's queue, leaf first.

        `bound` = it has topology constraints, `whole` = all of it must share a domain.
        """
        self.whole = whole
        self._books, self._ledger = books, books.ledger
        self._request = books.ledger.snapshot.classes.request
        wanted: dict[int, int] = {}
        for _, (_, pods, klass, _) in attempt.runs:
            wanted[klass] = wanted.get(klass, 0) + pods
        self._wanted = list(wanted.items())
        self._fits: list[Fit] = [books.session.fits.of(klass) for klass in wanted]
        gpus = books.ledger.gpus
        #: Whether pods may hold devices or claims that sums per row do not tell of.
        self._parted = gpus is not None and any(gpus.moves)
        self.exact = len(wanted) == 1 and not self._fits[0].linked and not self._fits[0].single
        self.exact &= not bound
        self.exact &= not self._parted
        """Whether a yes means that the attempt fits."""
        self._need = np.zeros(self._request.shape[0], dtype=np.int64)
        for klass, pods in self._wanted:
            self._need += self._request[:, klass] * pods
        self._over = self._over_limits(path, attempt)
        self.exact &= not self._over
        self._suits: Bools = np.logical_or.reduce([fit.suits for fit in self._fits])
        self._gone: Ints | None = None  # [D, N] memory that the pods looked at hold
        self._free: Ints = self._ledger.idle + self._ledger.releasing

    def lacking(self) -> Ints:
        """[R] what nodes that suit any of its classes lack in all, as things stand."""
        free = np.maximum(self._free[:, self._suits], 0).sum(axis=1)
        gpus = self._ledger.gpus
        if gpus is not None:  # parts of several devices can be one, if who shares them moves
            free[GPU] += gpus.devices.spare_parts(self._suits)
        return np.maximum(self._need - free, 0)

    def enough(self, steps: Sequence[Step]) -> bool:
        """Whether the sums allow it once the pods of `steps` have left."""
        self._gone = None
        free = self._free + self.freed(steps)
        there = np.maximum(free[:, self._suits], 0).sum(axis=1)
        if (there < self._need).any() or not self._within_limits(steps):
            return False
        most = [
            np.where(fit.suits, np.minimum(self._most(free, fit), pods), 0)
            for fit, (_, pods) in zip(self._fits, self._wanted, strict=True)
        ]
        room = [(held, pods) for held, (_, pods) in zip(most, self._wanted, strict=True)]
        if self.whole is None:
            return all(int(held.sum()) >= pods for held, pods in room)
        usable = np.where(self._suits, np.maximum(free, 0), 0)
        return self.whole.enough([*room, *zip(usable, self._need.tolist(), strict=True)])

    def _most(self, free: Ints, fit: Fit) -> Ints:
        """[N] copies of a class that `free` may hold."""
        if fit.shared is None:
            return _copies(free, fit)
        return np.minimum(_copies(free, fit), fit.shared.once_gone(free, self._gone))

    def _over_limits(self, path: tuple[int, ...], attempt: Attempt) -> list[tuple[int, Amounts]]:
        """Per queue of the path, by how much the attempt would pass its limit."""
        found: list[tuple[int, Amounts]] = []
        for queue in path:
            row = self._ledger.queues[queue]
            over = [
                need - (limit - used) if need > 0 and limit != UNLIMITED else 0.0
                for used, need, limit in zip(row.allocated, attempt.gate, row.limit, strict=True)
            ]
            if max(over) > 0:
                found.append((queue, (over[0], over[1], over[2])))
        return found

    def _within_limits(self, steps: Sequence[Step]) -> bool:
        """Whether the pods that leave make the attempt fit the limits of its queues."""
        books = self._books
        for queue, over in self._over:
            below = (s for s in steps if queue in self._ledger.path(books.queue[s.gang]))
            given = total(step.amount for step in below)
            if any(lack > back for lack, back in zip(over, given, strict=True)):
                return False
        return True

    def freed(self, steps: Sequence[Step]) -> Ints:
        """[R, N] what the pods of `steps` give back."""
        held = self._books.held
        positions = [p for step in steps for p in step.positions]
        node = np.array([held.node_of(p) for p in positions], dtype=np.int32)
        klass = np.array([held.klass_of(p) for p in positions], dtype=np.int32)
        freed = np.zeros_like(self._free)
        for r, amount in enumerate(self._request):
            np.add.at(freed[r], node, amount[klass])
        if self._parted:
            self._free_parts(positions, freed)
        return freed

    def _free_parts(self, positions: Sequence[int], freed: Ints) -> None:
        """Adds devices that nobody shares any more, and claims that one of the pods held."""
        held, gpus = self._books.held, self._ledger.gpus
        assert gpus is not None, "only where devices are shared"
        gone = np.zeros_like(gpus.devices.firm)
        for position in positions:
            klass, node = held.klass_of(position), held.node_of(position)
            need = int(gpus.devices.need(klass)[node]) if gpus.shares[klass] else 0
            for slot in held.slots_of(position):
                gone[slot, node] += need
            for claim in gpus.claims_of[klass]:
                freed[:, node] += claim.charge
        empty = gpus.devices.emptied_by(gone)
        freed[GPU] += empty
        for row in gpus.share_rows:
            freed[row] += np.where(gpus.by_claim, empty, 0)
        self._gone = gone

    def shortest(self, steps: Sequence[Step]) -> int:
        """The length of the shortest prefix that is enough; 0 where all of them are not."""
        if not self.enough(steps):
            return 0
        low, high = 0, len(steps)  # low is not enough, high is
        while high - low > 1:
            middle = (low + high) // 2
            if self.enough(steps[:middle]):
                high = middle
            else:
                low = middle
        return high

    def without_spare(self, steps: Sequence[Step], keep: int) -> list[Step]:
        """Drops steps, the last ones first but for step `keep`, that are not needed for room.

        Only for exact attempts. A gang's core stays where some of its surplus does not.
        """
        fit, pods = self._fits[0], self._wanted[0][1]
        free = self._free + self.freed(steps)
        count = np.where(fit.suits, np.minimum(_copies(free, fit), pods), 0)
        spare = int(count.sum()) - pods
        kept: list[Step] = []
        with_core: set[int] = set()
        for place in range(len(steps) - 1, -1, -1):
            step = steps[place]
            if place != keep and step.gang not in with_core:
                less = self._without(step, free, count, fit, pods)
                lost = sum(int(count[node]) - left for node, left in less.items())
                if lost <= spare:
                    spare -= lost
                    for node, left in less.items():
                        count[node] = left
                    continue
                self._take_back(step, free, 1)
            kept.append(step)
            if step.core:
                with_core.add(step.gang)
        return kept[::-1]

    def _without(self, step: Step, free: Ints, count: Ints, fit: Fit, pods: int) -> dict[int, int]:
        """Copies on the step's nodes if it stayed; `free` is changed to that."""
        self._take_back(step, free, -1)
        less: dict[int, int] = {}
        for node in {self._books.held.node_of(position) for position in step.positions}:
            if count[node] == 0:
                less[node] = 0
                continue
            column = free[:, node]
            if (column < 0).any():
                less[node] = 0
            else:
                fits = min((int(column[r]) // int(fit.request[r]) for r in fit.asked), default=pods)
                less[node] = min(fits, pods, int(count[node]))
        return less

    def _take_back(self, step: Step, free: Ints, sign: int) -> None:
        held = self._books.held
        for position in step.positions:
            request = self._request[:, held.klass_of(position)]
            free[:, held.node_of(position)] += sign * request


def _copies(free: Ints, fit: Fit) -> Ints:
    return copies(free, fit.request, fit.asked)

"""Put the pods of one attempt on the books, all of them or none.

The one placing engine: allocate places for real, a simulation of victims places what only waits
(`later_only`). A node mask keeps an attempt inside a topology domain. What is placed stands in the
ledger's log: the caller keeps it, or rolls back to its own mark.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .actions.attempt import Attempt
from .capacity import over_capacity
from .gpu.memory_price import MemoryPrice, memory_prices
from .pending import Run
from .plan import DomainLack, QueueCause
from .reason import Reason
from .session import Placed, Session
from .snapshot import Bools
from .topology.nesting import Areas, Nesting
from .topology.parts import LeafRun


class Shortfall(NamedTuple):
    """An attempt that found no place: the class that failed, the pods placed before it did."""

    klass: int
    placeable: int
    cause: QueueCause | None = None  # the queue that keeps it off every node with room
    reason: Reason = Reason.NONE  # what keeps it waiting besides room
    domain: DomainLack | None = None  # ... and the nearest domain, where that is topology


class _How(NamedTuple):
    """What all pods of one attempt have in common."""

    gang: int
    later_only: bool
    bonus: float
    priced: bool  # some are charged by the node they go to


class Placer:
    """Places attempts on the ledger of one session."""

    def __init__(self, session: Session) -> None:
        self._session, self._ledger = session, session.ledger
        gangs = session.snapshot.gangs
        self._queue: list[int] = gangs.queue.tolist()
        self._preemptible: list[bool] = gangs.preemptible.tolist()
        self.by_memory: dict[int, MemoryPrice] = memory_prices(session.ledger)

    def place(
        self,
        gang: int,
        attempt: Attempt,
        within: Bools | None = None,
        later_only: bool = False,
        bonus: float | None = None,
    ) -> list[Placed] | Shortfall:
        """Books nodes, queues and subgroups for all pods of the attempt, or nothing.

        `within` [N] are the ledger's nodes that may be used. `later_only`: everything is promised
        as if it waited for releasing room, which is how a simulation places. `bonus` is what the
        nominated node of a run counts more; by default the policy's.
        """
        ledger = self._ledger
        mark = ledger.trial()
        weight = self._session.policy.nominated_weight if bonus is None else bonus
        priced = bool(self.by_memory) and any(run[2] in self.by_memory for _, run in attempt.runs)
        how = _How(gang, later_only, weight, priced)
        bonds = ledger.topology
        bound = bonds is not None and gang in bonds.constraints.gangs
        place = self._place_bound if bound else self._place_free
        placed = place(how, attempt, (within,))
        if isinstance(placed, Shortfall):
            ledger.roll_back(mark)
            return placed
        if not priced:
            ledger.charge(self._queue[gang], attempt.need, not self._preemptible[gang])
        for one in placed:
            ledger.fill(one.leaf, one.pods, 0 if one.later else one.pods)
            if bound:
                ledger.seat(one.leaf, one.node, one.pods)
        return placed

    def _place_free(self, how: _How, attempt: Attempt, areas: Areas) -> list[Placed] | Shortfall:
        """One run after the other, wherever each fits best."""
        placed: list[Placed] = []
        for leaf_run in attempt.runs:
            if self._place_in(how, leaf_run, areas, placed):
                klass = leaf_run[1][2]
                cause = self._refusal(how.gang, klass) if how.priced else None
                return Shortfall(klass, sum(one.pods for one in placed), cause)
        return placed

    def _place_bound(self, how: _How, attempt: Attempt, areas: Areas) -> list[Placed] | Shortfall:
        """Inside the domains that the topology constraints of the gang allow."""

        def place_run(leaf_run: LeafRun, areas: Areas, placed: list[Placed]) -> int:
            return self._place_in(how, leaf_run, areas, placed)

        nesting = Nesting(self._ledger, self._session.fits, attempt, place_run, how.later_only)
        if nesting.place(areas):
            return nesting.placed
        cause = self._refusal(how.gang, nesting.failed) if how.priced else None
        return Shortfall(nesting.failed, nesting.farthest, cause, nesting.reason, nesting.lack)

    def _place_in(self, how: _How, leaf_run: LeafRun, areas: Areas, placed: list[Placed]) -> int:
        """Equal pods, one area after the other; answers how many found no node."""
        leaf, run = leaf_run
        first, pods, klass, nominated = run
        sharing = self._session.fits.get(klass).shared is not None
        place = self._place_sharing if sharing else self._place_run
        left = pods
        for within in areas:
            rest = first + pods - left, left, klass, nominated
            left = place(how.gang, leaf, rest, placed, within, how.later_only, how.bonus)
            if not left:
                break
        if how.priced and not left and klass not in self.by_memory:
            cpu, memory, gpu = self._ledger.charge_of[klass]
            amount = cpu * pods, memory * pods, gpu * pods
            self._ledger.charge(self._queue[how.gang], amount, not self._preemptible[how.gang])
        return left

    def _place_run(
        self,
        gang: int,
        leaf: int,
        run: Run,
        placed: list[Placed],
        within: Bools | None,
        later_only: bool,
        bonus: float,
    ) -> int:
        """Places equal pods one node after the other; answers how many found none."""
        first, pods, klass, nominated = run
        ledger, fit = self._ledger, self._session.fits.get(klass)
        wish = -1 if nominated < 0 else int(ledger.position[nominated])
        while pods:
            offer = fit.offer(wish, bonus, within, later_only)
            node, room, later = offer
            count = min(pods, room)
            if count == 0:
                break
            ledger.book(klass, node, 0 if later else count, count if later else 0, count)
            if fit.cells is not None:  # then pods go one by one
                fit.cells.take(self._session.task(first), klass, node, later)
            fit.took(offer, count)
            placed.append(Placed(gang, leaf, first, count, klass, node, later))
            first += count
            pods -= count
        return pods

    def _place_sharing(
        self,
        gang: int,
        leaf: int,
        run: Run,
        placed: list[Placed],
        within: Bools | None,
        later_only: bool,
        bonus: float,
    ) -> int:
        """The same for pods that share devices: node and devices are chosen pod by pod."""
        first, pods, klass, nominated = run
        ledger, session = self._ledger, self._session
        fit, price = session.fits.get(klass), self.by_memory.get(klass)
        queue, firm = self._queue[gang], not self._preemptible[gang]
        wish = -1 if nominated < 0 else int(ledger.position[nominated])
        for _ in range(pods):
            nodes = within if price is None else price.within(ledger, queue, firm, within)
            node, _, waits = fit.offer(wish, bonus, nodes, later_only)
            task = session.task(first)
            order = session.policy.devices_for(fit.rules.layout)
            choice = ledger.choose(klass, node, order, waits, task)
            if choice is None:
                break
            slots, later = choice
            ledger.book(klass, node, int(not later), int(later), 1, slots)
            if price is not None:
                ledger.charge(queue, price.amount(node), firm)
            placed.append(Placed(gang, leaf, first, 1, klass, node, later, slots))
            first += 1
            pods -= 1
        return pods

    def _refusal(self, gang: int, klass: int) -> QueueCause | None:
        """The queue that refuses a request by memory on every node where it would fit."""
        price, fit = self.by_memory.get(klass), self._session.fits.of(klass)
        if price is None or not (fit.later > 0).any():
            return None
        ledger = self._ledger
        least = int(np.where(fit.later > 0, price.gpus, np.inf).argmin())
        path = ledger.path(self._queue[gang])
        return over_capacity(ledger.queues, path, price.amount(least), self._preemptible[gang])


def wait_as_a_whole(session: Session, placed: list[Placed]) -> list[Placed]:
    """Turns what was placed now into promises: the gang waits for releasing room as one."""
    ledger = session.ledger
    for one in placed:
        if not one.later:
            if ledger.cells is not None:
                for first in range(one.first, one.first + one.pods):
                    ledger.cells.settle(session.task(first), later=True)
            ledger.book(one.klass, one.node, -one.pods, one.pods, 0, one.slots)
            ledger.fill(one.leaf, 0, -one.pods)
    return [one._replace(later=True) for one in placed]

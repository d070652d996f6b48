"""Put the pods of one attempt on the books, all of them or none.

The one placing engine: allocate places for real, a simulation of victims places what only waits
(`later_only`). A node mask keeps an attempt inside a topology domain. What is placed stands in the
ledger's log: the caller keeps it, or rolls back to its own mark.
"""

from __future__ import annotations

from typing import NamedTuple

from .actions.attempt import Attempt
from .ledger import Ledger
from .pending import Run
from .session import Placed, Session
from .snapshot import Bools


class Shortfall(NamedTuple):
    """An attempt that found no place: the class that failed, the pods placed before it did."""

    klass: int
    placeable: int


class Placer:
    """Places attempts on the ledger of one session."""

    def __init__(self, session: Session) -> None:
        self._session, self._ledger = session, session.ledger
        gangs = session.snapshot.gangs
        self._queue: list[int] = gangs.queue.tolist()
        self._preemptible: list[bool] = gangs.preemptible.tolist()

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
        placed: list[Placed] = []
        weight = self._session.policy.nominated_weight if bonus is None else bonus
        for leaf, run in attempt.runs:
            if self._place_run(gang, leaf, run, placed, within, later_only, weight):
                ledger.roll_back(mark)
                return Shortfall(run[2], sum(one.pods for one in placed))
        ledger.charge(self._queue[gang], attempt.need, not self._preemptible[gang])
        for one in placed:
            ledger.fill(one.leaf, one.pods, 0 if one.later else one.pods)
        return placed

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
            fit.took(offer, count)
            placed.append(Placed(gang, leaf, first, count, klass, node, later))
            first += count
            pods -= count
        return pods


def wait_as_a_whole(ledger: Ledger, placed: list[Placed]) -> list[Placed]:
    """Turns what was placed now into promises: the gang waits for releasing room as one."""
    for one in placed:
        if not one.later:
            ledger.book(one.klass, one.node, -one.pods, one.pods, 0)
            ledger.fill(one.leaf, 0, -one.pods)
    return [one._replace(later=True) for one in placed]

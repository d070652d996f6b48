"""Make an outcome part of the plan: evict, nominate, and take back what this cycle had given.

A pod that this cycle placed does not run yet: to take its place costs nothing and evicts nobody.
Where nothing but such places changed hands, the new owner starts at once; a gang that keeps only
part of its minimum on free room waits as a whole.
"""

from __future__ import annotations

from collections.abc import Collection

from ..reason import Reason
from ..session import Evicted, Miss, Placed
from .books import VictimBooks
from .simulation import Outcome, Simulation


class Commit:
    """The step from one outcome, which stands on the ledger, to the session."""

    def __init__(self, books: VictimBooks, gang: int, reason: Reason, outcome: Outcome) -> None:
        self._books, self._gang, self._reason, self._outcome = books, gang, reason, outcome
        self._session, self._ledger = books.session, books.ledger
        #: Per victim and leaf, positions that are not where they were.
        self._leavers: dict[int, dict[int, set[int]]] = {}
        for step in outcome.steps:
            away = set(outcome.away(step))
            for position, leaf in zip(step.positions, step.leaves, strict=True):
                if position in away:
                    mine = self._leavers.setdefault(step.gang, {})
                    mine.setdefault(leaf, set()).add(position)

    def run(self) -> None:
        """Writes evictions and places; the books of victims follow."""
        session, found, outcome = self._session, self._books, self._outcome
        positions = [
            p for of in self._leavers.values() for some in of.values() for p in sorted(some)
        ]
        tasks = tuple(found.held.task(p) for p in positions if found.held.given(p) is None)
        given = [g for g in map(found.held.given, positions) if g is not None]
        session.misses.pop(self._gang, None)
        self._take_back(given)
        self._stay(outcome)
        served, moved = outcome.placed, list(outcome.moved.values())
        if given:
            moved = [self._starts(one) for one in moved]
            if not tasks:
                served = self._all_start(served)
        session.placed += [*served, *moved, *outcome.joined]
        for victim in {one.gang for one in given}:
            self._wait_as_a_whole(victim)
        self._ledger.keep()
        for leaf, gone in outcome.gone.items():
            self._ledger.left(leaf, len(gone))
        for victim in sorted({*self._leavers, *(one.gang for one in outcome.joined)}):
            mine = [one for one in moved if one.gang == victim]
            found.lost(victim, self._leavers.get(victim, {}), mine)
        found.served(self._gang, served)
        if tasks:
            session.evicted.append(Evicted(tasks, self._reason, self._gang))
            session.beneficiaries.add(self._gang)
            found.deeds[self._gang] = outcome
        for loser in sorted({one.gang for one in given} & found.deeds.keys()):
            if all(one.gang != loser for one in session.placed):
                self._forgive(loser, found.deeds.pop(loser))

    def _forgive(self, loser: int, deed: Outcome) -> None:
        """A gang lost the place that others left for: who of them still can stays after all.

        Room that is taken by now was taken for the gang that is served here.
        """
        ledger, session, held = self._ledger, self._session, self._books.held
        named = {one.first for one in session.placed}

        def intact(position: int) -> bool:
            """Whether the pod ran before and is where the deed left it."""
            return held.given(position) is None and (
                position not in deed.moved or position in named
            )

        steps = [s for s in deed.steps if all(map(intact, deed.away(s)))]
        mine = {p for step in steps for p in step.positions}
        again = Outcome(steps, ledger.trial())
        again.moved = {p: one for p, one in deed.moved.items() if p in mine}
        again.gone = {leaf: [p for p in of if p in mine] for leaf, of in deed.gone.items()}
        for leaf, gone in again.gone.items():
            ledger.left(leaf, -len(gone))
        left = {p for step in steps for p in again.away(step)}
        Simulation(self._books, loser, self._books.attempts.next(loser)).bring_back(again)
        back = left - {p for step in steps for p in again.away(step)}
        self._stay(again, back)
        ledger.keep()
        for leaf, gone in again.gone.items():
            ledger.left(leaf, len(gone))
        session.placed = [one for one in session.placed if one.first not in back]
        stays = {held.task(position) for position in back}
        for at, one in enumerate(session.evicted):
            if one.beneficiary == loser:
                tasks = tuple(task for task in one.tasks if task not in stays)
                session.evicted[at] = one._replace(tasks=tasks, beneficiary=self._gang)
                if tasks:
                    session.beneficiaries.add(self._gang)
        for victim in sorted({step.gang for step in steps}):
            self._books.returned(victim, back)

    def _stay(self, outcome: Outcome, back: Collection[int] | None = None) -> None:
        """Pods that were taken away and came back to their devices hold them as before.

        `back` names them; by default all that are not away.
        """
        ledger, held = self._ledger, self._books.held
        if ledger.gpus is None:
            return
        for step in outcome.steps:
            away = set(outcome.away(step))
            for position in step.positions:
                klass, node = held.klass_of(position), held.node_of(position)
                if position in away or (back is not None and position not in back):
                    continue
                if not ledger.gpus.moves[klass]:
                    continue
                for _, slots, waits in held.kinds(position, 1):
                    if not waits:
                        ledger.stay(klass, node, slots)

    def _take_back(self, given: list[Placed]) -> None:
        """Strikes places out of the plan; the room of those that were to start is free."""
        if not given:
            return
        gone = {(one.gang, one.first) for one in given}
        kept: list[Placed] = []
        for one in self._session.placed:
            parts = [first for first in range(one.first, one.first + one.pods)]
            left = [first for first in parts if (one.gang, first) not in gone]
            if len(left) == len(parts):
                kept.append(one)
            else:
                kept += [one._replace(first=first, pods=1) for first in left]
        self._session.placed = kept
        for one in given:
            if not one.later:  # the simulation counts on room that is to be freed: it is free
                self._ledger.vacate(one.klass, one.node, one.slots)
                if self._ledger.cells is not None:
                    self._ledger.cells.vacate(self._books.held.task(one.first))
        lost = {p for gone_of in self._outcome.gone.values() for p in gone_of}
        for position in lost:
            one = self._books.held.given(position)
            if one is not None:
                miss = Miss(one.gang, 1, klass=one.klass, asked=((one.klass, 1),))
                self._session.misses[one.gang] = miss
                self._session.beneficiaries.discard(one.gang)

    def _starts(self, one: Placed) -> Placed:
        """The place as one on free room, if it was given in this cycle and the room is free."""
        given = self._books.held.given(one.first)
        if given is None or given.later or not self._free(one):
            return one
        return self._now(one)

    def _all_start(self, placed: list[Placed]) -> list[Placed]:
        """All places on free room, or none of them: part of a minimum waits for the rest of it."""
        mark = self._ledger.trial()
        started: list[Placed] = []
        for one in placed:
            if not self._free(one):
                self._ledger.roll_back(mark)
                return placed
            started.append(self._now(one))
        if self._short(self._gang):
            self._ledger.roll_back(mark)
            return placed
        return started

    def _free(self, one: Placed) -> bool:
        cells, gpus = self._ledger.cells, self._ledger.gpus
        if gpus is not None and gpus.moves[one.klass]:  # room is not a matter of amounts alone
            return False
        if cells is not None and cells.holds(self._books.held.task(one.first)):
            return False
        request = self._session.snapshot.classes.request[:, one.klass] * one.pods
        return bool((self._ledger.idle[:, one.node] >= request).all())

    def _now(self, one: Placed) -> Placed:
        self._ledger.book(one.klass, one.node, one.pods, -one.pods, 0)
        self._ledger.fill(one.leaf, 0, one.pods)
        return one._replace(later=False)

    def _short(self, gang: int) -> bool:
        """Whether the gang counts on room that is to be freed for its minimum."""
        held, firm, minimum = self._ledger.held, self._ledger.firm, self._books.minimum
        return any(held[leaf] > firm[leaf] < minimum[leaf] for leaf in self._books.leaves(gang))

    def _wait_as_a_whole(self, gang: int) -> None:
        """A gang that needs room to be freed for its minimum starts nothing yet."""
        ledger, books = self._ledger, self._books
        if not self._short(gang):
            return
        for at, one in enumerate(self._session.placed):
            if one.gang == gang and not one.later:
                ledger.book(one.klass, one.node, -one.pods, one.pods, 0, one.slots)
                ledger.fill(one.leaf, 0, -one.pods)
                if ledger.cells is not None:
                    for position in range(one.first, one.first + one.pods):
                        ledger.cells.settle(books.held.task(position), later=True)
                self._session.placed[at] = one._replace(later=True)

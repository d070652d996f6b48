"""Move running gangs together, so that one fits that does not fit as things are spread out.

What: preemptible gangs of any queue are evicted only if every pod of theirs finds another place in
the same plan, and the gang that asks finds one too.
Why: bin-packing keeps large holes open, but gangs that end leave small ones. Enough is free in sum,
nowhere enough at once.
Limits: only for preemptible gangs; moves at most `Evicting.max_moved_gangs` gangs at once; minimum
runtimes are not asked, PodDisruptionBudgets hold. Off where pods are spread on purpose.
Cost: refused by a sum where too little is free in all; else a search, see victims/search.py.

Source: KAI 0.17, action consolidation. Its choice of candidates beyond the bound follows map order;
ours takes those that the victim order names first.
"""

from __future__ import annotations

from ..reason import Reason
from ..session import Session
from ..snapshot import Ints
from ..victims.books import VictimBooks
from ..victims.budgets import Budgets
from ..victims.order import Spare
from ..victims.search import Rule
from ..victims.serve import Claimant, serve_waiting
from ..victims.simulation import Outcome
from ..victims.spare import spare_of


def consolidation(session: Session) -> None:
    """Serves waiting gangs by moving others."""
    if session.policy.evicting.max_moved_gangs != 0:
        serve_waiting(session, _rules, session.policy.depth_of(consolidation))


def _rules(books: VictimBooks, claimant: Claimant) -> list[Rule]:
    return [Consolidate(books, claimant)] if claimant.preemptible else []


class Consolidate:
    """Everybody may move, nobody may lose its place."""

    reason = Reason.CONSOLIDATED

    def __init__(self, books: VictimBooks, claimant: Claimant) -> None:
        self._books, self._gang = books, claimant.gang
        self.admits = Budgets(books).admits
        self._most = books.session.policy.evicting.max_moved_gangs

    def leaves(self) -> list[int]:
        return [leaf for leaf, victims in self._books.victims.items() if victims]

    def spare(self, gang: int) -> Spare:
        return Spare.NOTHING if gang == self._gang else spare_of(self._books, gang, False)

    def most_steps(self) -> int | None:
        return None

    def hopeless(self, lacking: Ints) -> bool:
        """What moves takes as much as it gives: too little in all stays too little."""
        return bool((lacking > 0).any())

    def legal(self, outcome: Outcome) -> bool:
        if any(outcome.gone.values()):
            return False
        moved = {one.gang for one in outcome.moved.values()}
        return self._most is None or len(moved) <= self._most

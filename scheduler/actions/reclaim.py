"""Give a queue what it is entitled to, from queues that hold more than they are.

What: a gang whose queue stays within its fair share with it may have pods of other queues evicted,
while those hold more than their share, or, where the gang stays within its queue's quota, more than
their quota. Who goes first is the queue and job order turned round: see victims/.
Why: room that nobody uses is lent. Without reclaim the lender would wait for the borrower to end.
Limits: never from one's own queue; never what is not preemptible or protected by its minimum
runtime; never so that the queue that takes ends as far above its share as the one it takes from.
PodDisruptionBudgets hold, but where a quota is claimed and no other set serves.
Cost: a search per gang that passes the gate, see victims/search.py; sums refuse most in one step.

Source: KAI 0.17, action reclaim and the proportion plugin.
"""

from __future__ import annotations

import math

from ..reason import Reason
from ..session import Session
from ..shares.row import Amounts, QueueRow
from ..snapshot import QUEUE_RESOURCES, UNLIMITED, Ints, stated
from ..victims.books import VictimBooks
from ..victims.budgets import Budgets
from ..victims.min_runtime import protected_until_s, reclaim_min_runtime_s
from ..victims.order import Spare
from ..victims.reclaimable import Claim, candidate, may_reclaim, pair, plus, reclaimable, within
from ..victims.search import Rule
from ..victims.serve import Claimant, serve_waiting
from ..victims.simulation import Outcome
from ..victims.spare import spare_of


def reclaim(session: Session) -> None:
    """Serves waiting gangs with pods of other queues."""
    serve_waiting(session, _rules, session.policy.depth_of(reclaim))


def _rules(books: VictimBooks, claimant: Claimant) -> list[Rule]:
    rows = books.ledger.queues
    claim = Claim(claimant.path, claimant.attempt.need, claimant.preemptible)
    if not may_reclaim(rows, claim):
        return []
    leaf = rows[claim.path[0]]
    rules: list[Rule] = [Reclaim(books, claim, Budgets(books))]
    if Budgets(books).used and within(plus(leaf.allocated, claim.need), leaf.quota):
        rules.append(Reclaim(books, claim, Budgets(books, respected=False)))
    return rules


class Reclaim:
    """The victims that one claim allows."""

    reason = Reason.RECLAIMED

    def __init__(self, books: VictimBooks, claim: Claim, budgets: Budgets) -> None:
        self._books, self._claim = books, claim
        self._knobs = books.session.policy.evicting
        self.admits = budgets.admits
        queues = books.session.snapshot.queues
        self._stated: list[float] = stated(queues.reclaim_min_runtime_s, queues.count).tolist()
        self._min_runtime_s: dict[int, float] = {}
        self._before: dict[int, QueueRow] = {}
        self._leaves = self._open()

    def _open(self) -> list[int]:
        """Leaf queues from which something could be taken, and the books as they are now."""
        rows, ledger, claim = self._books.ledger.queues, self._books.ledger, self._claim
        found: list[int] = []
        for leaf, victims in self._books.victims.items():
            path = ledger.path(leaf)
            if victims and leaf != claim.path[0] and candidate(rows, claim, path):
                found.append(leaf)
                self._keep(path)
        self._keep(claim.path)
        return found

    def _keep(self, path: tuple[int, ...]) -> None:
        for queue in path:
            if queue not in self._before:
                self._before[queue] = self._books.ledger.queues[queue].copy()

    def leaves(self) -> list[int]:
        return self._leaves

    def spare(self, gang: int) -> Spare:
        return spare_of(self._books, gang, self._protected(gang))

    def _protected(self, gang: int) -> bool:
        queue = self._books.queue[gang]
        seconds = self._min_runtime_s.get(queue)
        if seconds is None:
            path, knobs = self._books.ledger.path(queue), self._knobs
            seconds = self._min_runtime_s[queue] = reclaim_min_runtime_s(
                self._stated, path, self._claim.path, knobs.resolution, knobs.reclaim_min_runtime_s
            )
        snapshot = self._books.session.snapshot
        started = float(snapshot.gangs.last_start_s[gang])
        return snapshot.now_s < protected_until_s(started, seconds)

    def most_steps(self) -> int | None:
        return None

    def hopeless(self, lacking: Ints) -> bool:
        """Whether the other queues, taken together, may not be made to give what is lacking."""
        if not self._leaves:
            return True
        groups: dict[int, list[int]] = {}
        for leaf in self._leaves:
            groups.setdefault(pair(self._claim.path, self._books.ledger.path(leaf))[1], []).append(
                leaf
            )
        return any(
            float(lacking[r]) > sum(self._most(r, q, leaves) for q, leaves in groups.items())
            for r in range(QUEUE_RESOURCES)
            if lacking[r] > 0 and self._books.charged_as_requested[r]
        )

    def _most(self, r: int, queue: int, leaves: list[int]) -> float:
        """The most of a resource that one queue may legally lose: pieces go while it is above."""
        rows, claim = self._before, self._claim
        other = rows[queue]
        ours = rows[pair(claim.path, self._books.ledger.path(leaves[0]))[0]]
        bounds = [other.allocatable]
        if within(plus(ours.allocated, claim.need), ours.quota):
            bounds.append(other.quota)
        over = 0.0
        for bound in bounds:
            for s in range(QUEUE_RESOURCES):
                if bound[s] != UNLIMITED and other.allocated[s] > bound[s]:
                    if s != r:
                        return other.allocated[r]  # another resource may keep it above
                    over = max(over, other.allocated[s] - bound[s])
        pieces = set[float]().union(*(self._books.pieces(leaf, r) for leaf in leaves))
        pieces.discard(0.0)
        if over <= 0 or not pieces:
            return 0.0
        if len(pieces) == 1:
            piece = min(pieces)
            return math.ceil(over / piece) * piece
        return over + max(pieces)

    def legal(self, outcome: Outcome) -> bool:
        pieces: dict[int, list[Amounts]] = {}
        for step in outcome.steps:
            taken = outcome.away(step) if self._knobs.moving_is_taking else outcome.lost(step)
            if taken:
                leaf = self._books.queue[step.gang]
                pieces.setdefault(leaf, []).append(self._books.amount(taken))
        paths = {leaf: self._books.ledger.path(leaf) for leaf in pieces}
        multiplier = self._knobs.saturation_multiplier
        return reclaimable(self._before, paths, self._claim, pieces, multiplier)

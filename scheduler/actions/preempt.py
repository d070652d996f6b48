"""Let what matters more run first inside a queue.

What: a gang may have preemptible gangs of its own queue evicted that have a lower priority.
Why: the queue's owner ranks the work; fair shares between queues are not touched.
Limits: strictly lower priority, never what is protected by the queue's minimum runtime; a gang that
is not preemptible itself must fit its queue's quota. PodDisruptionBudgets hold.
Cost: a search per gang that waits behind lower ones, see victims/search.py.

Source: KAI 0.17, action preempt.
"""

from __future__ import annotations

from ..reason import Reason
from ..session import Session
from ..snapshot import Ints, stated
from ..victims.books import VictimBooks
from ..victims.budgets import Budgets
from ..victims.min_runtime import preempt_min_runtime_s, protected_until_s
from ..victims.order import Spare
from ..victims.search import Rule
from ..victims.serve import Claimant, serve_waiting
from ..victims.simulation import Outcome
from ..victims.spare import spare_of


def preempt(session: Session) -> None:
    """Serves waiting gangs with lower ones of their own queue."""
    serve_waiting(session, _rules, session.policy.depth_of(preempt))


def _rules(books: VictimBooks, claimant: Claimant) -> list[Rule]:
    victims = books.victims.get(claimant.path[0])
    return [Preempt(books, claimant)] if victims else []


class Preempt:
    """The victims that one gang may have in its queue."""

    reason = Reason.PREEMPTED

    def __init__(self, books: VictimBooks, claimant: Claimant) -> None:
        self._books, self._priority = books, claimant.priority
        self._leaf = claimant.path[0]
        self.admits = Budgets(books).admits
        queues = books.session.snapshot.queues
        stated_s: list[float] = stated(queues.preempt_min_runtime_s, queues.count).tolist()
        default_s = books.session.policy.evicting.preempt_min_runtime_s
        self._min_runtime_s = preempt_min_runtime_s(stated_s, claimant.path, default_s)

    def leaves(self) -> list[int]:
        return [self._leaf]

    def spare(self, gang: int) -> Spare:
        if self._books.priority[gang] >= self._priority:
            return Spare.NOTHING
        snapshot = self._books.session.snapshot
        started = float(snapshot.gangs.last_start_s[gang])
        safe = snapshot.now_s < protected_until_s(started, self._min_runtime_s)
        return spare_of(self._books, gang, safe)

    def most_steps(self) -> int | None:
        return None

    def hopeless(self, lacking: Ints) -> bool:
        """Victims come by priority, the lowest first: where it is not lower, none is."""
        _, lowest = self._books.victims[self._leaf][0]
        return self._books.priority[lowest] >= self._priority

    def legal(self, outcome: Outcome) -> bool:
        return True

"""The loop of every action that evicts: gangs that wait, best first, each with one search.

A gang is looked at once per action. One that fails tells the next: while nothing has moved, the
same attempt from the same queue fails the same. What is found is committed at once: the pods that
lost their place are evicted in the beneficiary's name, it is nominated to their room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..actions.attempt import Attempt
from ..capacity import over_quota
from ..holds import give_back, keep_again
from ..orders.job_iteration import Job, JobIteration
from ..session import Miss, Session
from ..snapshot import Floats, stated
from .books import VictimBooks, books
from .commit import Commit
from .search import Rule, Search
from .simulation import Outcome


@dataclass(frozen=True, slots=True)
class Claimant:
    """A gang that looks for room."""

    gang: int
    attempt: Attempt
    path: tuple[int, ...]  # its queue and the ancestors, leaf first
    preemptible: bool
    priority: int


#: Gangs per action of which it is found out whether only their preemption delay keeps them waiting.
_MOST_TOLD = 16
#: The rules to search by, one after the other until one serves; none: the gang may not.
Rules = Callable[[VictimBooks, Claimant], "list[Rule]"]


def serve_waiting(session: Session, rules: Rules, depth: int | None) -> None:
    """Searches victims for gangs that wait and may evict: of each leaf queue the first `depth`."""
    if not _anybody_waits(session):
        return
    found = books(session)
    if found.victims:
        _Serving(session, found, rules, depth).run()


def _anybody_waits(session: Session) -> bool:
    """Whether any pod is still without a place. Most cycles end here."""
    return any(session.ledger.waiting)


class _Serving:
    def __init__(
        self, session: Session, found: VictimBooks, rules: Rules, depth: int | None
    ) -> None:
        self.session, self.books, self._rules, self._depth = session, found, rules, depth
        self._late: list[int] = []  # gangs whose preemption delay is not over
        self._ready_s = may_evict_from_s(session)
        #: Per queue, priority and attempt that failed, the ledger's state then.
        self._failed: dict[tuple[object, ...], int] = {}

    def run(self) -> None:
        session, found = self.session, self.books
        a, b, c = session.total.tolist()
        jobs = {leaf: self._in_time(waiting) for leaf, waiting in found.waiting.items()}
        standing = session.policy.queue_order
        rows, need = session.ledger.queues, found.attempts.need
        order = JobIteration(rows, (a, b, c), jobs, need, standing)
        while not self._spent() and (gang := order.pop()) >= 0:
            attempt = found.attempts.next(gang)
            if attempt.runs and not self._never(attempt):
                self._serve(gang, attempt)
        for gang in self._late[:_MOST_TOLD]:
            self._tell_delay(gang)

    def _in_time(self, waiting: list[Job]) -> list[Job]:
        """Gangs whose preemption delay is over; the others say that they wait for it."""
        now = self.session.snapshot.now_s
        late = [gang for _, gang in waiting if self._ready_s[gang] > now]
        self._late += late
        self.session.delayed.update((gang, float(self._ready_s[gang] - now)) for gang in late)
        rest = [job for job in waiting if self._ready_s[job[1]] <= now] if late else waiting[:]
        return rest[: self._depth]

    def _tell_delay(self, gang: int) -> None:
        """Whether nothing but its delay keeps a gang from having others evicted: as a thought."""
        attempt = self.books.attempts.next(gang)
        if gang in self.session.only_delayed or not attempt.runs or self._never(attempt):
            return
        give_back(self.session, gang)
        found = self._search(gang, attempt)
        if found is not None:
            self.session.ledger.roll_back(found[1].mark)
            self.session.only_delayed.add(gang)
        keep_again(self.session, gang)

    def _spent(self) -> bool:
        """Whether the rate limit leaves nothing."""
        allowance = self.session.policy.evicting.allowance
        if allowance is None:
            return False
        return sum(len(one.tasks) for one in self.session.evicted) >= allowance

    def _never(self, attempt: Attempt) -> bool:
        """Whether a pod of the attempt can run nowhere, whoever leaves."""
        return any(self.session.fits.get(run[2]).nowhere for _, run in attempt.runs)

    def _serve(self, gang: int, attempt: Attempt) -> None:
        give_back(self.session, gang)
        found = self._search(gang, attempt)
        if found is None:
            keep_again(self.session, gang)
            return
        rule, outcome = found
        Commit(self.books, gang, rule.reason, outcome).run()

    def _search(self, gang: int, attempt: Attempt) -> tuple[Rule, Outcome] | None:
        """The first rule that serves the gang, and its outcome, which stands on the ledger."""
        session, found = self.session, self.books
        queue, preemptible = found.queue[gang], found.preemptible[gang]
        path = session.ledger.path(queue)
        cause = None  # limits may be met once victims of the same queue are gone, quotas not
        if not preemptible:
            cause = over_quota(session.ledger.queues, path, attempt.gate)
        if cause is not None:
            if gang not in session.misses:
                asked = tuple((run[2], run[1]) for _, run in attempt.runs)
                session.misses[gang] = Miss(gang, attempt.pods, asked=asked, cause=cause)
            return None
        kinds = tuple((pods, klass, wish) for _, (_, pods, klass, wish) in attempt.runs)
        bonds = session.ledger.topology
        bound = None if bonds is None else bonds.kind(gang, attempt)
        known = (queue, preemptible, found.priority[gang], kinds, bound)
        if self._failed.get(known) == session.ledger.state:
            return None
        claimant = Claimant(gang, attempt, path, preemptible, found.priority[gang])
        for rule in self._rules(found, claimant):
            outcome = Search(found, gang, attempt, rule).find()
            if outcome is not None:
                return rule, outcome
        self._failed[known] = session.ledger.state
        return None


def may_evict_from_s(session: Session) -> Floats:
    """[G] when a gang's preemption delay is over: after it came, and after each eviction of it.

    Source: KAI 0.17, preemption delay. Until then it takes free room only; being a victim, its fair
    share and its place in the order are not concerned.
    """
    gangs = session.snapshot.gangs
    since = gangs.created_s
    if gangs.last_eviction_s is not None:
        since = stated(gangs.last_eviction_s, gangs.count, -float("inf"))
        since = since.clip(min=gangs.created_s)
    delay = stated(gangs.preemption_delay_s, gangs.count, 0.0)
    return np.where(delay > 0, since + delay, -np.inf)

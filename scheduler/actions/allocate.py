"""Give waiting gangs the room that is free or about to be.

Gangs are tried in queue order, each all-or-nothing; one that got its place and has pods left is put
back and competes again. Gangs for which others were evicted go first (holds.py), then those that
hold a part of their minimum (repair.py). Nothing is evicted. Source: KAI 0.17, action allocate and
AllocateJob.
"""

from __future__ import annotations

import numpy as np

from ..capacity import over_capacity
from ..gang_state import ready
from ..holds import honour
from ..orders.job_iteration import Job, JobIteration
from ..orders.user_order import seniority
from ..placing import Placer, Shortfall, wait_as_a_whole
from ..plan import QueueCause
from ..repair import broken, repair
from ..reserve import QUEUE_GPU
from ..session import Miss, Placed, Session
from .attempt import Attempt


def allocate(session: Session) -> None:
    """Fills `session.placed`, and `session.misses` with the attempts that failed."""
    Allocate(session).run()


class Allocate:
    """One pass over all gangs that are ready and wait."""

    def __init__(self, session: Session) -> None:
        self.session, self.ledger = session, session.ledger
        gangs = session.snapshot.gangs
        self.attempts = session.attempts
        self._placer = Placer(session)
        self._queue: list[int] = gangs.queue.tolist()
        self._preemptible: list[bool] = gangs.preemptible.tolist()
        self._priority: list[int] = gangs.priority.tolist()
        self._created_s: list[float] = seniority(gangs, session.policy.user_fairness).tolist()
        self._rank: list[int] = gangs.rank.tolist()
        #: Per class, the smallest number of pods that found no place. Room only shrinks in this
        #: action, so it holds to its end; only for classes that do not look at other pods.
        self._refused: dict[int, tuple[int, int]] = {}
        #: Per gang, the leaves of which some pods wait for releasing room.
        self._in_line: dict[int, set[int]] = {}
        #: Per attempt, the ledger's state in which it failed: the same again fails the same.
        self._failed: dict[tuple[object, ...], tuple[int, Miss]] = {}

    def run(self) -> None:
        session, ledger, attempts = self.session, self.ledger, self.attempts
        a, b, c = session.total.tolist()
        standing = session.policy.queue_order
        honour(session, self._try)
        if first := set(broken(session.snapshot)):
            waits = (job for waiting in self._jobs().values() for job in waiting)
            able = sorted(job for job in waits if job[1] in first)
            repair(session, [gang for _, gang in able], self._try)
        order = JobIteration(ledger.queues, (a, b, c), self._jobs(), attempts.need, standing)
        while (gang := order.pop()) >= 0:
            attempt = attempts.next(gang)
            if not attempt.runs:
                continue
            if not self._try(gang, attempt):
                continue
            attempts.moved(gang)
            if attempts.more(gang):
                order.push(self._job_key(gang), gang)

    def _try(self, gang: int, attempt: Attempt) -> bool:
        """Whether the attempt found its place; if not, the miss says why."""
        session, ledger = self.session, self.ledger
        queue, preemptible = self._queue[gang], self._preemptible[gang]
        path = ledger.path(queue)
        cause = over_capacity(ledger.queues, path, attempt.gate, preemptible)
        if cause is not None:
            session.misses[gang] = Miss(gang, attempt.pods, asked=_asked(attempt), cause=cause)
            return False
        miss = self._refusal(gang, attempt) or self._place(gang, attempt)
        if miss is not None:
            session.misses[gang] = miss
            return False
        session.misses.pop(gang, None)
        return True

    def _jobs(self) -> dict[int, list[Job]]:
        """The gangs to try, per leaf queue, best first."""
        snapshot = self.session.snapshot
        could = ready(snapshot.subgroups, snapshot.gangs.root, snapshot.tasks)
        waiting_pods = np.bincount(
            snapshot.subgroups.gang, self.ledger.waiting, minlength=snapshot.gangs.count
        )
        could &= self.session.admitted & (waiting_pods > 0)
        jobs: dict[int, list[Job]] = {}
        for gang in np.flatnonzero(could).tolist():
            jobs.setdefault(self._queue[gang], []).append((self._job_key(gang), gang))
        depth = self.session.policy.depth_of(allocate)
        for waiting in jobs.values():
            waiting.sort()
            if depth is not None:
                self.session.passed_over.update(gang for _, gang in waiting[depth:])
                del waiting[depth:]
        return jobs

    def _job_key(self, gang: int) -> tuple[int, int, float, int]:
        elastic = self.attempts.elastic(gang)
        return self.session.policy.job_order(
            self._priority[gang], elastic, self._created_s[gang], self._rank[gang]
        )

    def _refusal(self, gang: int, attempt: Attempt) -> Miss | None:
        """Refuses untried where that is certain: too little room in all, or it failed before."""
        known = self._failed.get(self._signature(gang, attempt))
        if known is not None and known[0] == self.ledger.state:
            return known[1]._replace(gang=gang)
        for klass, pods in _totals(attempt):
            refused = self._refused.get(klass)
            if refused is not None and pods >= refused[0]:
                return Miss(gang, attempt.pods, refused[1], klass, _asked(attempt))
            if pods == 1:
                continue
            fit = self.session.fits.of(klass)
            if fit.linked:
                continue
            room = int(np.minimum(fit.later, pods).sum())
            if room < pods:
                self._refused[klass] = (pods, room)
                return Miss(gang, attempt.pods, room, klass, _asked(attempt))
        return None

    def _place(self, gang: int, attempt: Attempt) -> Miss | None:
        """Places all pods of the attempt, or none of them."""
        ledger, reserves = self.ledger, self.session.reserves
        gpus = attempt.gate[QUEUE_GPU]
        if reserves and gpus > 0:
            path = ledger.path(self._queue[gang])
            placed = reserves.beside(path, gpus, lambda: self._placer.place(gang, attempt))
        else:
            placed = self._placer.place(gang, attempt)
        if isinstance(placed, QueueCause):
            miss = Miss(gang, attempt.pods, asked=_asked(attempt), cause=placed)
            self._failed[self._signature(gang, attempt)] = (ledger.state, miss)
            return miss
        if isinstance(placed, Shortfall):
            return self._note_failure(gang, attempt, placed)
        if ledger.any_releasing:
            placed = self._settle(gang, placed)
        ledger.keep()
        self.session.placed += placed
        return None

    def _settle(self, gang: int, placed: list[Placed]) -> list[Placed]:
        """A gang that needs releasing room for its minimum waits for it as a whole."""
        in_line = self._in_line.setdefault(gang, set())
        in_line.update(one.leaf for one in placed if one.later)
        if not any(map(self.attempts.unmet, in_line)):
            return placed
        in_line.update(one.leaf for one in placed)
        return wait_as_a_whole(self.session, placed)

    def _note_failure(self, gang: int, attempt: Attempt, short: Shortfall) -> Miss:
        klass, placeable, cause, reason, domain = short
        asked = _asked(attempt)
        miss = Miss(gang, attempt.pods, placeable, klass, asked, cause, reason, domain)
        if cause is not None:  # it depends on the queue
            return miss
        self._failed[self._signature(gang, attempt)] = (self.ledger.state, miss)
        if self._constrained(gang):  # others may use other nodes
            return miss
        totals = _totals(attempt)
        if len(totals) == 1 and not self.session.fits.get(klass).linked:
            self._refused[klass] = (attempt.pods, placeable)
        return miss

    def _constrained(self, gang: int) -> bool:
        bonds = self.ledger.topology
        return bonds is not None and gang in bonds.constraints.gangs

    def _signature(self, gang: int, attempt: Attempt) -> tuple[object, ...]:
        """What decides the outcome of an attempt in a given state of the ledger."""
        kind: tuple[object, ...]
        kind = tuple((0, pods, klass, wish) for _, (_, pods, klass, wish) in attempt.runs)
        bonds, reserves = self.ledger.topology, self.session.reserves
        if reserves:
            kind = (*kind, reserves.others(self.ledger.path(self._queue[gang])))
        return kind if bonds is None else (*kind, bonds.kind(gang, attempt))


def _asked(attempt: Attempt) -> tuple[tuple[int, int], ...]:
    """(klass, pods) of each run, in order."""
    return tuple((run[2], run[1]) for _, run in attempt.runs)


def _totals(attempt: Attempt) -> list[tuple[int, int]]:
    """(klass, pods) with the runs of one class added up."""
    if len(attempt.runs) == 1:
        run = attempt.runs[0][1]
        return [(run[2], run[1])]
    totals: dict[int, int] = {}
    for _, run in attempt.runs:
        totals[run[2]] = totals.get(run[2], 0) + run[1]
    return list(totals.items())

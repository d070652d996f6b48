"""Why each gang waits, as data.

What depends on the class is looked up once per class (`diagnosis`), what depends on the attempt
once per kind of attempt and queue: thousands of gangs that wait for the same reason cost little.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .diagnosis import ClassDiagnosis, diagnose
from .filters.resources import copies
from .gang_state import ready, satisfied
from .gpu.lack import cards_asked
from .plan import QueueCause, Wait
from .reason import Reason
from .session import Miss, Session
from .snapshot import CPU, GPU, PODS, Bools, Codes, Ints, SubGroups, TaskState

#: How many gangs a wait names as having gone first.
FEW = 3

#: Reasons that no amount of waiting mends: they say more than "the gang does not fit".
_CERTAIN = (
    Reason.LARGER_THAN_ANY_NODE,
    Reason.VOLUME_CLAIM_NOT_FOUND,
    Reason.CONFIG_MAP_NOT_FOUND,
)


def waits(session: Session) -> tuple[Wait, ...]:
    """One Wait for each gang with pods that are pending or gated and were not given a node."""
    return _Waits(session).all()


class _Lack(NamedTuple):
    """What gangs of one queue that failed in the same attempt have in common."""

    reason: Reason
    found: ClassDiagnosis
    asked: tuple[tuple[int, float], ...]
    free: tuple[tuple[int, float], ...]
    cause: QueueCause | None
    behind: tuple[int, ...]


class _Waits:
    def __init__(self, session: Session) -> None:
        self.session, self.snapshot = session, session.snapshot
        self._queue: list[int] = session.snapshot.gangs.queue.tolist()
        self._classes: dict[int, ClassDiagnosis] = {}
        self._lacks: dict[tuple[object, ...], _Lack] = {}
        self._first: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._at_start: Ints | None = None

    def all(self) -> tuple[Wait, ...]:
        snapshot, session = self.snapshot, self.session
        gangs, tasks = snapshot.gangs, snapshot.tasks
        pending = self._per_gang(tasks.state == TaskState.PENDING)
        gated = self._per_gang(tasks.state == TaskState.GATED)
        given, nominated = np.zeros_like(pending), np.zeros_like(pending)
        for one in session.placed:
            (nominated if one.later else given)[one.gang] += one.pods
        waiting = np.flatnonzero(pending + gated > given)
        could = ready(snapshot.subgroups, gangs.root, tasks)
        runs = satisfied(snapshot.subgroups, gangs.root, tasks) | (given > 0)
        columns = (waiting, session.refusal[waiting], could[waiting], runs[waiting])
        pods = (pending[waiting], gated[waiting], nominated[waiting])
        rows = zip(*(c.tolist() for c in columns), *(c.tolist() for c in pods), strict=True)
        return tuple(self._wait(*row) for row in rows)

    def _per_gang(self, rows: Bools) -> Codes:
        gang = self.snapshot.tasks.gang[rows]
        return np.bincount(gang[gang >= 0], minlength=self.snapshot.gangs.count).astype(np.int32)

    def _wait(
        self,
        gang: int,
        refusal: int,
        could: bool,
        runs: bool,
        pending: int,
        gated: int,
        nominated: int,
    ) -> Wait:
        if refusal:
            return Wait(gang, Reason(refusal), wanted=pending + gated, blocks_start=not runs)
        if not could:
            reason = Reason.POD_GATED if gated else Reason.GANG_INCOMPLETE
            have, need = self._complete(gang)
            return Wait(gang, reason, placeable=have, wanted=need, blocks_start=not runs)
        miss = self.session.misses.get(gang)
        if miss is not None:
            say = self._no_room if miss.cause is None else self._no_quota
            wait = say(miss, runs or nominated > 0)
            delay_s = self.session.delayed.get(gang)
            if delay_s is None:
                return wait
            only = gang in self.session.only_delayed
            return replace(
                wait, delay_s=delay_s, reason=Reason.PREEMPTION_DELAY if only else wait.reason
            )
        if nominated:
            victims = gang in self.session.beneficiaries
            reason = Reason.WAITING_FOR_VICTIMS if victims else Reason.WAITING_FOR_RELEASE
            return Wait(gang, reason, placeable=nominated, wanted=pending, blocks_start=not runs)
        if gang in self.session.passed_over:
            return Wait(gang, Reason.QUEUE_DEPTH, wanted=pending, blocks_start=not runs)
        # Nothing was tried: the pending pods do not complete a subgroup that is still missing.
        reason = Reason.POD_GATED if gated else Reason.GANG_INCOMPLETE
        return Wait(gang, reason, placeable=pending, wanted=pending, blocks_start=not runs)

    def _complete(self, gang: int) -> tuple[int, int]:
        """Pods the gang could run now, and the fewest that meet its minimum."""
        subgroups, ledger = self.snapshot.subgroups, self.session.ledger
        root = int(self.snapshot.gangs.root[gang])
        end = root + int(np.count_nonzero(subgroups.gang == gang))
        rows = np.arange(root, end)
        have = sum(ledger.held[root:end]) + sum(ledger.waiting[root:end])
        return have, fewest_pods(subgroups, rows)

    def _no_quota(self, miss: Miss, runs: bool) -> Wait:
        cause = miss.cause
        assert cause is not None, "a queue refused"
        lack = self._lack(miss)
        return Wait(
            miss.gang,
            cause.reason,
            wanted=miss.wanted,
            asked=lack.asked,
            queue_cause=cause,
            behind=tuple(other for other in lack.behind if other != miss.gang)[:FEW],
            blocks_start=not runs,
        )

    def _no_room(self, miss: Miss, runs: bool) -> Wait:
        lack = self._lack(miss)
        found = lack.found
        return Wait(
            miss.gang,
            miss.reason or lack.reason,
            klass=miss.klass,
            counts=found.counts,
            nearest=found.nearest,
            missing=found.missing,
            placeable=miss.placeable,
            wanted=miss.wanted,
            asked=lack.asked,
            free=lack.free,
            queue_cause=lack.cause,
            behind=tuple(other for other in lack.behind if other != miss.gang)[:FEW],
            detail=found.detail,
            domain=miss.domain,
            blocks_start=not runs,
        )

    def _lack(self, miss: Miss) -> _Lack:
        queue = miss.cause.queue if miss.cause else self._queue[miss.gang]
        key = (queue, miss.klass, miss.placeable, miss.asked)
        lack = self._lacks.get(key)
        if lack is None:
            make = self._lack_of_quota if miss.cause else self._lack_of_room
            lack = self._lacks[key] = make(miss, queue)
        return lack

    def _lack_of_quota(self, miss: Miss, queue: int) -> _Lack:
        cause = miss.cause
        assert cause is not None, "a queue refused"
        first = self._went_first(queue, cause.resource, -1)
        return _Lack(cause.reason, _NOTHING_FOUND, self._asked(miss), (), cause, first)

    def _lack_of_room(self, miss: Miss, queue: int) -> _Lack:
        found = self._of_class(miss.klass)
        reason, asked = found.reason, self._asked(miss)
        if reason is Reason.NONE or (miss.placeable and reason not in _CERTAIN):
            reason = Reason.GANG_DOES_NOT_FIT
        free = tuple((row, found.free[row]) for row, _ in asked)
        if not self._had_room(miss):
            return _Lack(reason, found, asked, free, None, ())
        resource = GPU if cards_asked(self.snapshot, miss.klass) else CPU
        row = self.session.ledger.queues[queue]
        charge = self.snapshot.classes.queue_request[resource, miss.klass] * miss.wanted
        used, fair = row.allocated[resource], row.fair_share[resource]
        cause = QueueCause(Reason.BEHIND_OTHERS, queue, resource, float(charge), used, fair)
        return _Lack(reason, found, asked, free, cause, self._went_first(-1, resource, miss.klass))

    def _of_class(self, klass: int) -> ClassDiagnosis:
        """Looks at every node once for a class and remembers the answer."""
        found = self._classes.get(klass)
        if found is None:
            found = self._classes[klass] = diagnose(self.session, klass)
        return found

    def _asked(self, miss: Miss) -> tuple[tuple[int, float], ...]:
        """Sums over the attempt, of all resources but pod slots."""
        total = np.zeros(len(self.snapshot.resources), dtype=np.int64)
        for klass, pods in miss.asked:
            total += self.snapshot.classes.request[:, klass] * pods
        parts = sum(cards_asked(self.snapshot, klass) * pods for klass, pods in miss.asked)
        asked: dict[int, float] = {row: int(total[row]) for row in np.flatnonzero(total).tolist()}
        if parts:
            asked[GPU] = int(parts) if parts == int(parts) else parts
        return tuple((row, asked[row]) for row in sorted(asked) if row != PODS)

    def _had_room(self, miss: Miss) -> bool:
        """Whether an attempt of one class would have fitted before this cycle placed anything."""
        fit = self.session.fits.of(miss.klass)
        several = any(klass != miss.klass for klass, _ in miss.asked)
        if fit.linked or fit.shared is not None or several:
            return False
        if self._at_start is None:
            ledger, request = self.session.ledger, self.snapshot.classes.request
            self._at_start = ledger.idle + ledger.releasing
            for one in self.session.placed:
                self._at_start[:, one.node] += request[:, one.klass] * one.pods
        room = copies(self._at_start, fit.request, fit.asked)
        return int(np.minimum(room[fit.suits], miss.wanted).sum()) >= miss.wanted

    def _went_first(self, queue: int, resource: int, klass: int) -> tuple[int, ...]:
        """The first few gangs of this cycle that took some of a resource.

        Those in `queue` and below it (-1: in any), on nodes that suit `klass` (-1: on any).
        """
        key = (queue, resource, klass)
        found = self._first.get(key)
        if found is None:
            request, ledger = self.snapshot.classes.request, self.session.ledger
            suits = self.session.fits.of(klass).suits if klass >= 0 else None
            seen: dict[int, None] = {}
            for one in self.session.placed:
                if (
                    request[resource, one.klass]
                    and (queue < 0 or queue in ledger.path(self._queue[one.gang]))
                    and (suits is None or suits[one.node])
                ):
                    seen[one.gang] = None
                if len(seen) > FEW:
                    break
            found = self._first[key] = tuple(seen)
        return found


_NOTHING_FOUND = ClassDiagnosis(Reason.NONE, (), -1, (), {})


def fewest_pods(subgroups: SubGroups, rows: NDArray[np.intp]) -> int:
    """The fewest pods with which a gang, whose rows of SubGroups these are, meets its minimum."""
    costs: dict[int, list[int]] = {}
    cost = 0
    for row in rows[::-1].tolist():  # children come after their parent
        minimum, inner = int(subgroups.minimum[row]), sorted(costs.get(row, ()))
        cost = minimum if subgroups.leaf[row] else sum(inner[:minimum])
        costs.setdefault(int(subgroups.parent[row]), []).append(cost)
    return cost

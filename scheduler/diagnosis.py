"""Why each gang waits, as data. The cost is one look at the nodes per class, not per gang.

Figures are those at the end of the cycle: what is left after everything that was decided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .filters.resources import copies, lacking, lacks
from .fit import Fit
from .gang_state import ready, satisfied
from .plan import QueueCause, Wait
from .reason import Reason
from .rules import ALL
from .session import Miss, Session
from .snapshot import GPU, PODS, Bools, Codes, SubGroups, TaskState

#: How many gangs a wait names as being ahead of it.
FEW = 3
_NO_NODE = -1


@dataclass(frozen=True, slots=True)
class ClassDiagnosis:
    """Why no further pod of a class finds a node."""

    reason: Reason  # NONE: one more would fit
    counts: tuple[tuple[Reason, int], ...]  # nodes by the first rule that refuses them
    nearest: int  # the suitable node that lacks least, a row of the snapshot's nodes
    missing: tuple[tuple[int, int], ...]  # (resource row, amount) it lacks
    free: dict[int, int]  # per resource row, what suitable nodes have free
    detail: str = ""


def waits(session: Session) -> tuple[Wait, ...]:
    """One Wait for each gang with pods that are pending or gated and were not given a node."""
    return _Waits(session).all()


class _Waits:
    def __init__(self, session: Session) -> None:
        self.session, self.snapshot = session, session.snapshot
        self._classes: dict[int, ClassDiagnosis] = {}
        self._shared: dict[tuple[object, ...], tuple[object, ...]] = {}
        self._ahead: dict[tuple[int, int], tuple[int, ...]] = {}
        self._start_room: dict[int, int] = {}

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
        met = satisfied(snapshot.subgroups, gangs.root, tasks)
        refusal = session.refusal
        return tuple(
            self._wait(
                gang,
                Reason(int(refusal[gang])),
                bool(could[gang]),
                bool(met[gang]) or int(given[gang]) > 0,
                (int(pending[gang]), int(gated[gang]), int(nominated[gang])),
            )
            for gang in waiting.tolist()
        )

    def _per_gang(self, rows: Bools) -> Codes:
        gang = self.snapshot.tasks.gang[rows]
        return np.bincount(gang[gang >= 0], minlength=self.snapshot.gangs.count).astype(np.int32)

    def _wait(
        self, gang: int, refusal: Reason, could: bool, runs: bool, pods: tuple[int, int, int]
    ) -> Wait:
        pending, gated, nominated = pods
        if refusal:
            return Wait(gang, refusal, wanted=pending + gated, blocks_start=not runs)
        if not could:
            reason = Reason.POD_GATED if gated else Reason.GANG_INCOMPLETE
            have, need = self._complete(gang)
            return Wait(gang, reason, placeable=have, wanted=need, blocks_start=not runs)
        miss = self.session.misses.get(gang)
        if miss is None:
            return self._on_its_way(gang, runs, pods)
        if miss.cause is not None:
            ahead = self._ahead_in_queue(gang, miss.cause.queue)
            return Wait(
                gang,
                miss.cause.reason,
                wanted=miss.wanted,
                asked=self._asked(miss),
                queue_cause=miss.cause,
                behind=ahead,
                blocks_start=not (runs or nominated),
            )
        return self._no_room(miss, runs or nominated > 0)

    def _complete(self, gang: int) -> tuple[int, int]:
        """Pods the gang could run now, and the fewest that meet its minimum."""
        subgroups, ledger = self.snapshot.subgroups, self.session.ledger
        rows = np.flatnonzero(subgroups.gang == gang)
        have = sum(ledger.held[row] + ledger.waiting[row] for row in rows.tolist())
        return have, fewest_pods(subgroups, rows)

    def _on_its_way(self, gang: int, runs: bool, pods: tuple[int, int, int]) -> Wait:
        """No attempt failed: its pods wait for releasing room, or are held back by their gates."""
        pending, gated, nominated = pods
        if nominated:
            reason = Reason.WAITING_FOR_RELEASE
            return Wait(gang, reason, placeable=nominated, wanted=pending, blocks_start=not runs)
        reason = Reason.POD_GATED if gated else Reason.GANG_INCOMPLETE
        return Wait(gang, reason, wanted=pending + gated, blocks_start=not runs)

    def _no_room(self, miss: Miss, runs: bool) -> Wait:
        found = self.of_class(miss.klass)
        asked = self._asked(miss)
        reason = found.reason
        if reason is Reason.NONE or (miss.placeable and reason not in _CERTAIN):
            reason = Reason.GANG_DOES_NOT_FIT
        cause, behind = self._others(miss)
        return Wait(
            miss.gang,
            reason,
            klass=miss.klass,
            counts=found.counts,
            nearest=found.nearest,
            missing=found.missing,
            placeable=miss.placeable,
            wanted=miss.wanted,
            asked=asked,
            free=tuple((row, found.free[row]) for row, _ in asked),
            queue_cause=cause,
            behind=behind,
            detail=found.detail,
            blocks_start=not runs,
        )

    def _asked(self, miss: Miss) -> tuple[tuple[int, int], ...]:
        """Sums over the attempt, the telling resources: all but pod slots."""
        request = self.snapshot.classes.request
        total = sum((request[:, klass] * pods for klass, pods in miss.asked), 0 * request[:, 0])
        rows = np.flatnonzero(total).tolist()
        return tuple((row, int(total[row])) for row in rows if row != PODS)

    def _others(self, miss: Miss) -> tuple[QueueCause | None, tuple[int, ...]]:
        """Whether there was room when the cycle began, and who took it."""
        if (
            len({klass for klass, _ in miss.asked}) != 1
            or self._room_at_start(miss.klass) < miss.wanted
        ):
            return None, ()
        ledger = self.session.ledger
        queue = int(self.snapshot.gangs.queue[miss.gang])
        row = ledger.queues[queue]
        resource = GPU if self.snapshot.classes.request[GPU, miss.klass] else 0
        charge = float(self.snapshot.classes.queue_request[resource, miss.klass]) * miss.wanted
        cause = QueueCause(
            Reason.BEHIND_OTHERS,
            queue,
            resource,
            charge,
            row.allocated[resource],
            row.fair_share[resource],
        )
        return cause, self._ahead_in_queue(miss.gang, -1)

    def _room_at_start(self, klass: int) -> int:
        """Copies of a class that fitted, on nodes that suit it, before this cycle placed any."""
        found = self._start_room.get(klass)
        if found is None:
            ledger, fit = self.session.ledger, self.session.fits.of(klass)
            free = ledger.idle + ledger.releasing
            for one in self.session.placed:
                free[:, one.node] += self.snapshot.classes.request[:, one.klass] * one.pods
            found = int(copies(free, fit.request, fit.asked)[fit.suits].sum())
            self._start_room[klass] = found
        return found

    def _ahead_in_queue(self, gang: int, queue: int) -> tuple[int, ...]:
        """The first few gangs that were given a place in this cycle, in the queue (-1: in any)."""
        key = (queue, -1)
        found = self._ahead.get(key)
        if found is None:
            ledger, of = self.session.ledger, self.snapshot.gangs.queue
            seen: dict[int, None] = {}
            for one in self.session.placed:
                if queue < 0 or queue in ledger.path(int(of[one.gang])):
                    seen[one.gang] = None
                if len(seen) > FEW:
                    break
            found = self._ahead[key] = tuple(seen)
        return tuple(other for other in found if other != gang)[:FEW]

    def of_class(self, klass: int) -> ClassDiagnosis:
        """Looks at every node once for a class and remembers the answer."""
        found = self._classes.get(klass)
        if found is None:
            found = self._classes[klass] = diagnose(self.session, klass)
        return found


def fewest_pods(subgroups: SubGroups, rows: NDArray[np.intp]) -> int:
    """The fewest pods with which a gang, whose rows of SubGroups these are, meets its minimum."""
    costs: dict[int, list[int]] = {}
    cost = 0
    for row in rows[::-1].tolist():  # children come after their parent
        minimum, inner = int(subgroups.minimum[row]), sorted(costs.get(row, ()))
        cost = minimum if subgroups.leaf[row] else sum(inner[:minimum])
        costs.setdefault(int(subgroups.parent[row]), []).append(cost)
    return cost


#: Reasons that no amount of waiting mends: they say more than "the gang does not fit".
_CERTAIN = (
    Reason.LARGER_THAN_ANY_NODE,
    Reason.VOLUME_CLAIM_NOT_FOUND,
    Reason.CONFIG_MAP_NOT_FOUND,
)


def diagnose(session: Session, klass: int) -> ClassDiagnosis:
    """Which rule refuses each node for one more pod of a class, and how near the nearest comes."""
    ledger, fit = session.ledger, session.fits.of(klass)
    rules = ledger.snapshot.classes.rules[klass]
    if rules.blocked:
        reason, none = Reason(rules.blocked), dict.fromkeys(range(fit.request.shape[0]), 0)
        every = ((reason, ledger.nodes.count),)
        return ClassDiagnosis(reason, every, _NO_NODE, (), none, rules.blocked_detail)
    suits = np.ones(ledger.nodes.count, dtype=np.bool_)
    counts: list[tuple[Reason, int]] = []
    for rule in session.policy.filters:
        allowed = rule.allows(ledger, klass, ALL)
        if allowed is not None:
            _count(counts, rule.reason, suits & ~allowed)
            suits &= allowed
    facts = len(counts)
    room = ledger.idle + ledger.releasing
    left = suits.copy()
    for reason, short in lacking(room, fit.request):
        _count(counts, reason, left & short)
        left &= ~short
    if left.any():
        decisive = Reason.NONE
    elif (fit.request[:, None] > _largest(ledger.nodes.allocatable, fit)).any():
        decisive = Reason.LARGER_THAN_ANY_NODE
    else:
        decisive = _most(counts[facts:] or counts)
    nearest, missing = _nearest(session, fit, suits)
    free: list[int] = np.sum(np.maximum(room[:, suits], 0), axis=1).tolist()
    return ClassDiagnosis(decisive, tuple(counts), nearest, missing, dict(enumerate(free)))


def _largest(allocatable: np.ndarray, fit: Fit) -> np.ndarray:
    """[R, 1] the most that any node the class may use has of each resource."""
    usable = allocatable[:, fit.suits]
    if not usable.shape[1]:
        return np.full((allocatable.shape[0], 1), np.iinfo(np.int64).max)
    return usable.max(axis=1, keepdims=True)


def _count(counts: list[tuple[Reason, int]], reason: Reason, refused: Bools) -> None:
    """Adds the nodes that a rule refuses first; resources that share a word are added up."""
    number = int(refused.sum())
    if number == 0:
        return
    if counts and counts[-1][0] is reason:
        counts[-1] = (reason, counts[-1][1] + number)
    else:
        counts.append((reason, number))


def _most(counts: list[tuple[Reason, int]]) -> Reason:
    """The reason of most nodes, the earlier rule of equals; NONE where there is no node at all."""
    if not counts:
        return Reason.GANG_DOES_NOT_FIT
    return max(counts, key=lambda pair: pair[1])[0]


def _nearest(session: Session, fit: Fit, suits: Bools) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The suitable node that lacks the smallest part of the request, and what it lacks."""
    ledger = session.ledger
    short = lacks(ledger.idle + ledger.releasing, fit.request)
    part = (short / np.maximum(fit.request, 1)[:, None]).sum(axis=0)
    part[~suits | (part == 0)] = np.inf
    if not np.isfinite(part).any():
        return _NO_NODE, ()
    node = int(part.argmin())
    missing = tuple((r, int(short[r, node])) for r in np.flatnonzero(short[:, node]).tolist())
    return int(ledger.origin[node]), missing

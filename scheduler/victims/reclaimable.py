"""May a queue take resources back from others, and from whom.

Source: KAI 0.17, reclaimable of the proportion plugin and its strategies. Queues are compared at
the first level where the paths of the two differ. All amounts are (millicores, bytes, GPUs); -1 in
a quota, limit or share means unlimited.

- The gate: the reclaimer's leaf queue stays within its fair share with what it asks for, and
  within its quota with what cannot be preempted.
- A piece (a pod of the surplus, or the core of a gang as one) may be taken while the other queue
  holds more than its allocatable share (maintain fair share), or, if the reclaimer stays within
  its own quota, more than its quota (guarantee deserved quota).
- Afterwards no queue on the reclaimer's path may be over its fair share and as saturated as a
  sibling that was taken from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..shares.row import NOTHING, Amounts, QueueRow
from ..snapshot import QUEUE_RESOURCES, UNLIMITED


class Rows(Protocol):
    """Queues by row: all of them, or those that matter."""

    def __getitem__(self, queue: int, /) -> QueueRow: ...


@dataclass(frozen=True, slots=True)
class Claim:
    """What a gang asks to get back: the path of its queue (leaf first), the amount, its kind."""

    path: tuple[int, ...]
    need: Amounts
    preemptible: bool


def may_reclaim(rows: Rows, claim: Claim) -> bool:
    """The gate: only a queue within its share may take from others."""
    leaf = rows[claim.path[0]]
    if not within(plus(leaf.allocated, claim.need), leaf.fair_share):
        return False
    return claim.preemptible or within(plus(leaf.non_preemptible, claim.need), leaf.quota)


def pair(claimant: tuple[int, ...], victim: tuple[int, ...]) -> tuple[int, int]:
    """The first queues from the top where two paths (leaf first) differ: the sides compared."""
    for mine, theirs in zip(reversed(claimant), reversed(victim), strict=False):
        if mine != theirs:
            return mine, theirs
    return claimant[0], victim[0]


def candidate(rows: Rows, claim: Claim, victim: tuple[int, ...]) -> bool:
    """Whether any piece of a victim's queue could be taken as things stand.

    Within its quota the reclaimer looks only at resources that it needs and that the other queue
    has a quota of: one of them above the quota, or all exactly at it.
    """
    mine, theirs = pair(claim.path, victim)
    ours, other = rows[mine], rows[theirs]
    if not within(plus(ours.allocated, claim.need), ours.quota):
        return not within(other.allocated, other.allocatable)
    below = False
    for r in range(QUEUE_RESOURCES):
        if claim.need[r] > 0 and other.quota[r] != UNLIMITED:
            if other.allocated[r] > other.quota[r]:
                return True
            below |= other.allocated[r] < other.quota[r]
    return not below


def above_fair_share(other: QueueRow, remaining: Amounts) -> bool:
    """Maintain fair share: the other queue still holds more than its allocatable share."""
    return not within(remaining, other.allocatable)


def for_quota(ours: QueueRow, need: Amounts, other: QueueRow, remaining: Amounts) -> bool:
    """Guarantee deserved quota: we stay within our quota, the other still holds more than its."""
    return within(plus(ours.allocated, need), ours.quota) and not within(remaining, other.quota)


def takeable(ours: QueueRow, need: Amounts, other: QueueRow, remaining: Amounts) -> bool:
    """Whether a piece may be taken from a queue that still holds `remaining`."""
    return above_fair_share(other, remaining) or for_quota(ours, need, other, remaining)


def reclaimable(
    rows: Rows,
    paths: Mapping[int, tuple[int, ...]],
    claim: Claim,
    pieces: Mapping[int, Iterable[Amounts]],
    multiplier: float = 1.0,
) -> bool:
    """Whether taking `pieces` (per leaf queue, in the order in which they go) is legal.

    `rows` are the books before anything was taken or given; `paths` those of the leaf queues.
    """
    left: dict[int, Amounts] = {}
    involved: dict[int, list[bool]] = {}
    for leaf, taken in pieces.items():
        mine, theirs = pair(claim.path, paths[leaf])
        for piece in taken:
            remaining = left.get(theirs, rows[theirs].allocated)
            if not takeable(rows[mine], claim.need, rows[theirs], remaining):
                return False
            for queue in paths[leaf]:
                left[queue] = minus(left.get(queue, rows[queue].allocated), piece)
                seen = involved.setdefault(queue, [False] * QUEUE_RESOURCES)
                for r in range(QUEUE_RESOURCES):
                    seen[r] |= piece[r] > 0
    return _stays_behind(rows, claim, left, involved, max(multiplier, 1.0))


def _stays_behind(
    rows: Rows,
    claim: Claim,
    left: Mapping[int, Amounts],
    involved: Mapping[int, list[bool]],
    multiplier: float,
) -> bool:
    """At every level: not over its share and at least as saturated as a sibling taken from."""
    for queue in claim.path:
        row = rows[queue]
        holds = plus(left.get(queue, row.allocated), claim.need)
        if not claim.preemptible and not within(plus(row.non_preemptible, claim.need), row.quota):
            return False
        for other, remaining in left.items():
            if other == queue or rows[other].parent != row.parent:
                continue
            for r in range(QUEUE_RESOURCES):
                if not involved[other][r] and claim.need[r] <= 0:
                    continue
                share = rows[other].fair_share[r]
                ours = saturation(holds[r], row.fair_share[r])
                theirs = saturation(remaining[r], share)
                if ours > 1 and share > 0 and ours * multiplier >= theirs:
                    return False
    return True


def saturation(amount: float, share: float) -> float:
    """How full a share is; an unlimited one is empty."""
    if share == UNLIMITED:
        return 0.0
    if share == 0:
        return float("inf") if amount > 0 else 0.0
    return amount / share


def within(amount: Amounts, bound: Amounts) -> bool:
    """Every amount at most its bound, -1 counting as infinite."""
    return (
        (bound[0] == UNLIMITED or amount[0] <= bound[0])
        and (bound[1] == UNLIMITED or amount[1] <= bound[1])
        and (bound[2] == UNLIMITED or amount[2] <= bound[2])
    )


def plus(a: Amounts, b: Amounts) -> Amounts:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def minus(a: Amounts, b: Amounts) -> Amounts:
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


def total(amounts: Iterable[Amounts]) -> Amounts:
    """The sum of amounts."""
    found = NOTHING
    for amount in amounts:
        found = plus(found, amount)
    return found

"""How one amount is divided among sibling queues: quota, then surplus, then what rounding left.

Every array has one entry per *claim*: one queue's claim on one resource of its parent. Claims with
the same `pool` divide the same amount. All pools of a level are divided in the same vector steps,
so the cost follows the number of rounds and not the number of queues.

Source: KAI 0.17, the division of deserved and over-quota resources. Amounts are floored per round
and compared exactly by its vectors, so the order of the arithmetic below is part of the rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..snapshot import UNLIMITED, Bools, Floats, Ints

#: What the remainder phase hands out at once: one GPU, one millicore, one byte.
REMAINDER_UNIT = 1.0


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims on pools, all arrays [M]. `tie` orders equals: earlier creation, then name."""

    pool: Ints
    priority: Ints
    tie: Ints
    quota: Floats  # -1 = unlimited
    limit: Floats  # -1 = none
    weight: Floats
    usage: Floats
    request: Floats

    @property
    def requestable(self) -> Floats:
        """What a queue can use at most: its demand, cut at its limit."""
        return np.where(self.limit == UNLIMITED, self.request, np.minimum(self.limit, self.request))


def divide(total: Floats, claims: Claims, k: float) -> tuple[Floats, Floats]:
    """Divides `total` [pools] among the claims [M].

    Returns the shares [M] and what nobody could use [pools]. Quotas are never scaled down: where
    they sum to more than the total, so do the shares.
    """
    give = quota_phase(total, claims)
    left = np.array(total, dtype=np.float64)
    np.subtract.at(left, claims.pool, give)
    return surplus_phase(left, claims, give, k)


def quota_phase(total: Floats, claims: Claims) -> Floats:
    """Each queue gets its quota, as far as it asks for it. Priority plays no part."""
    quota = np.where(claims.quota == UNLIMITED, total[claims.pool], claims.quota)
    return np.minimum(quota, claims.requestable)


def surplus_phase(left: Floats, claims: Claims, share: Floats, k: float) -> tuple[Floats, Floats]:
    """Adds the surplus `left` [pools] to `share` [M]: priority by priority, by over-quota weight.

    Returns the new shares and what stayed undivided.
    """
    share, left = share.copy(), left.copy()
    remainder = np.zeros_like(share)
    bucket = _buckets(claims.pool, claims.priority)
    for number in range(int(bucket.max(initial=-1)) + 1):
        _water_fill(left, claims, share, remainder, bucket == number, max(k, 0.0))
    _hand_out_remainders(left, claims, share, remainder, bucket)
    return share, left


def _buckets(pool: Ints, priority: Ints) -> Ints:
    """Number of each claim's priority inside its pool, 0 = highest."""
    order = np.lexsort((-priority, pool))
    p, q = pool[order], priority[order]
    new_pool = np.ones(p.shape[0], dtype=bool)
    new_pool[1:] = p[1:] != p[:-1]
    new_bucket = new_pool.copy()
    new_bucket[1:] |= q[1:] != q[:-1]
    running = np.cumsum(new_bucket)
    first = np.maximum.accumulate(np.where(new_pool, running, 0))
    numbers = np.empty(p.shape[0], dtype=np.int64)
    numbers[order] = running - first
    return numbers


def _water_fill(
    left: Floats, claims: Claims, share: Floats, remainder: Floats, member: Bools, k: float
) -> None:
    """Rounds of proportional offers to one bucket of every pool, in place.

    Offers of a round are fixed at its start. A pool goes another round when some queue needed less
    than it was offered.
    """
    pools = left.shape[0]
    going = left > 0
    requestable = claims.requestable
    while True:
        need = np.maximum(requestable - share, 0.0)
        open_ = np.flatnonzero(member & (need > 0) & going[claims.pool])
        if open_.shape[0] == 0:
            return
        pool = claims.pool[open_]
        weight, offered = _scaled_weights(pool, pools, claims.weight[open_], claims.usage[open_], k)
        open_, pool, need = open_[offered], pool[offered], need[open_[offered]]
        offer = left[pool] * weight[offered]
        filled = need <= offer
        give = np.where(filled, need, np.floor(offer))
        over = np.where(filled, 0.0, offer - give)
        remainder[open_] = np.where(filled | (over > 0), over, remainder[open_])
        share[open_] += give
        np.subtract.at(left, pool, give)
        going = np.zeros(pools, dtype=bool)
        going[pool[need < offer]] = True
        going &= left > 0


def _scaled_weights(
    pool: Ints, pools: int, weight: Floats, usage: Floats, k: float
) -> tuple[Floats, Bools]:
    """Each claim's part of its pool after historical usage, and which claims get an offer at all.

    A queue that used more than its weight lately gets less, one that used less gets more.
    """
    weights = np.bincount(pool, weight, minlength=pools)[pool]
    live = weights != 0
    part = np.divide(weight, weights, out=np.zeros_like(weight), where=live)
    scaled = np.where(live, np.maximum(0.0, part + k * (part - usage)), 0.0)
    sums = np.bincount(pool, scaled, minlength=pools)[pool]
    offered = live & (sums != 0) & (weight != 0)
    return np.divide(scaled, sums, out=np.zeros_like(scaled), where=offered), offered


def _hand_out_remainders(
    left: Floats, claims: Claims, share: Floats, remainder: Floats, bucket: Ints
) -> None:
    """What flooring left over: one unit each, once, to those that lost most by it, in place."""
    owed = np.flatnonzero((remainder > 0) & (left[claims.pool] > 0))
    if owed.shape[0] == 0:
        return
    key = (claims.tie[owed], -remainder[owed], bucket[owed], claims.pool[owed])
    owed = owed[np.lexsort(key)]
    pool = claims.pool[owed]
    count = len(owed)
    starts = np.flatnonzero(np.concatenate(([True], pool[1:] != pool[:-1])))
    turn = np.arange(count) - np.repeat(starts, np.diff(np.append(starts, count)))
    give = np.clip(left[pool] - turn * REMAINDER_UNIT, 0.0, REMAINDER_UNIT)
    share[owed] += give
    np.subtract.at(left, pool, give)

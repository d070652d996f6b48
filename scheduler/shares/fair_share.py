"""Fair share of every queue: the cluster among the top-level queues, each share among children."""

from __future__ import annotations

import numpy as np

from ..snapshot import QUEUE_RESOURCES, Codes, Floats, Ints, Queues
from .divide import Claims, divide
from .tree import levels


def fair_share(queues: Queues, total: Floats, request: Floats, k: float = 1.0) -> Floats:
    """[3, Q] what each queue is entitled to now: millicores, bytes, GPUs.

    `total` [3] is what the top level divides. `request` [3, Q] is the demand of each queue with
    that of its descendants: what is allocated plus what is pending. `k` scales the effect of
    historical usage (`queues.usage`); values below 0 count as 0. CPU, memory and GPU are divided
    independently. Raises ValueError where parents form a cycle.
    """
    share = np.zeros((QUEUE_RESOURCES, queues.count), dtype=np.float64)
    tie = _tie(queues)
    for depth, level in enumerate(levels(queues.parent)):
        # Sums of fractions depend on their order, which must not depend on that of the rows.
        rows = level[np.argsort(tie[level])]
        if depth == 0:
            amounts, pool = np.asarray(total, dtype=np.float64)[:, None], np.zeros(len(rows), int)
        else:
            parents = np.flatnonzero(np.bincount(queues.parent[rows]))
            pool = np.searchsorted(parents, queues.parent[rows])
            amounts = share[:, parents]
        claims = _claims(queues, rows, pool, tie, request, amounts.shape[1])
        given, _ = divide(amounts.ravel(), claims, k)
        share[:, rows] = given.reshape(QUEUE_RESOURCES, -1)
    return share


def allocatable_share(queues: Queues, share: Floats) -> Floats:
    """[3, Q] what a queue may hold before it is over: max(quota, fair share) up to its limit.

    -1 stays "unlimited": an unlimited quota makes it the limit.
    """
    held = np.maximum(queues.quota, share)
    capped = np.where(queues.limit == -1, held, np.minimum(held, queues.limit))
    return np.where(queues.quota == -1, queues.limit, capped)


def _tie(queues: Queues) -> Ints:
    """[Q] position by creation, then name."""
    position = np.empty(queues.count, dtype=np.int64)
    position[np.lexsort((queues.rank, queues.created_s))] = np.arange(queues.count)
    return position


def _claims(
    queues: Queues, rows: Codes, pool: Ints, tie: Ints, request: Floats, pools: int
) -> Claims:
    """The claims of one level: three resources of `rows`, resource-major."""
    offsets = np.arange(QUEUE_RESOURCES)[:, None] * pools
    return Claims(
        pool=(offsets + pool[None, :]).ravel(),
        priority=np.tile(queues.priority[rows].astype(np.int64), QUEUE_RESOURCES),
        tie=np.tile(tie[rows], QUEUE_RESOURCES),
        quota=queues.quota[:, rows].ravel(),
        limit=queues.limit[:, rows].ravel(),
        weight=queues.weight[:, rows].ravel(),
        usage=queues.usage[:, rows].ravel(),
        request=np.asarray(request, dtype=np.float64)[:, rows].ravel(),
    )

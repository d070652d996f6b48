"""May a queue take this much more: its limit for all, its quota for what cannot be preempted.

Source: KAI 0.17, capacity policy of the proportion plugin. Both rules hold at the leaf queue and at
every ancestor. Fair share is no bound here: idle room may be used beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .plan import QueueCause
from .reason import Reason
from .shares.row import Amounts, QueueRow
from .snapshot import QUEUE_RESOURCES, UNLIMITED


def over_capacity(
    rows: Sequence[QueueRow], path: Iterable[int], request: Amounts, preemptible: bool
) -> QueueCause | None:
    """The queue that refuses `request` (millicores, bytes, GPUs), or None where all allow it.

    `path` names the leaf queue first and then its ancestors. Limits are looked at before quotas,
    CPU before memory before GPU; a resource that is not asked for is not looked at.
    """
    chain = tuple(path)
    return over_limit(rows, chain, request) or (
        None if preemptible else over_quota(rows, chain, request)
    )


def over_limit(
    rows: Sequence[QueueRow], path: Iterable[int], request: Amounts
) -> QueueCause | None:
    """The first queue on the path whose limit would be passed."""
    for queue in path:
        row = rows[queue]
        r = _first_over(row.limit, row.allocated, request)
        if r >= 0:
            return QueueCause(
                Reason.OVER_LIMIT, queue, r, request[r], row.allocated[r], row.limit[r]
            )
    return None


def over_quota(
    rows: Sequence[QueueRow], path: Iterable[int], request: Amounts
) -> QueueCause | None:
    """The first queue on the path whose quota non-preemptible pods would pass."""
    for queue in path:
        row = rows[queue]
        r = _first_over(row.quota, row.non_preemptible, request)
        if r >= 0:
            reason = Reason.NON_PREEMPTIBLE_OVER_QUOTA
            return QueueCause(reason, queue, r, request[r], row.non_preemptible[r], row.quota[r])
    return None


def _first_over(bound: Amounts, used: Amounts, request: Amounts) -> int:
    for r in range(QUEUE_RESOURCES):
        if request[r] != 0 and bound[r] != UNLIMITED and used[r] + request[r] > bound[r]:
            return r
    return -1

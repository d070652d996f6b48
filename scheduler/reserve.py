"""GPUs that queues keep in reserve: others may take what is free only as far as these remain.

What: a queue with a reserve can always start that many GPUs' worth of gangs in or below it, as far
as a sum can promise it: others leave the unused part of the reserve free. What the reserve says is
a number; nodes that only some workloads may use are another rule (filters/queue_nodes.py).
Limits: a reserve evicts nobody. One that is larger than what is free is filled as others end, or
by reclaim where the queue's quota covers it.
Cost: per attempt, the queues that state a reserve; nothing where none does.
"""

from __future__ import annotations

from .ledger import Ledger
from .plan import QueueCause
from .reason import Reason
from .shares.row import Amounts
from .snapshot import GPU, QUEUE_RESOURCES

#: Row of the queue amounts.
QUEUE_GPU = QUEUE_RESOURCES - 1


def over_reserve(
    ledger: Ledger, total_gpus: float, path: tuple[int, ...], request: Amounts
) -> QueueCause | None:
    """The queue whose reserve `request` would eat into, for a gang of the queues on `path`."""
    kept = ledger.reserved
    if not kept or request[QUEUE_GPU] <= 0:
        return None
    rows, below = ledger.queues, dict.fromkeys(kept, 0.0)
    used = sum(row.allocated[QUEUE_GPU] for row in rows if row.parent < 0)
    outstanding, worst, most = 0.0, -1, 0.0
    for queue in sorted(kept, reverse=True):  # children come after their parents
        unused = 0.0 if queue in path else kept[queue] - rows[queue].allocated[QUEUE_GPU]
        if unused > most:
            worst, most = queue, unused
        mine = max(unused, below[queue])  # a reserve includes those below it
        above = next((q for q in ledger.path(queue)[1:] if q in kept), -1)
        if above >= 0:
            below[above] += mine
        else:
            outstanding += mine
    asked = request[QUEUE_GPU]
    if worst < 0 or used + asked + outstanding <= total_gpus:
        return None
    held = rows[worst].allocated[QUEUE_GPU]
    return QueueCause(Reason.RESERVED_FOR_OTHERS, worst, GPU, asked, held, kept[worst])

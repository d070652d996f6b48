"""Why a pod had to leave, in words: for whom, and by which rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .explain import NameTable
from .plan import Plan
from .reason import Reason


class Eviction(NamedTuple):
    """One pod that leaves."""

    task: int  # row of the snapshot
    reason: Reason
    beneficiary: int  # gang; -1 = none

    def words(self, queue: str, names: NameTable) -> str:
        """One sentence; `queue` is that of the pod that leaves."""
        if self.reason is Reason.STALE_GANG:
            return "Evicted: its gang ran below its minimum for too long (stale gang)"
        if self.beneficiary < 0:
            return _DISMISSED.get(self.reason, "Evicted").format(queue=queue)
        gang = names.gang(self.beneficiary)
        match self.reason:
            case Reason.PREEMPTED:
                return f"Evicted for {gang} of the same queue, whose priority is higher (preempt)"
            case Reason.CONSOLIDATED:
                return f"Moved so that {gang} finds room (consolidation)"
            case _:
                owner = names.queue_of(self.beneficiary)
                return (
                    f"Evicted for {gang} of queue {owner}, which is below its share while queue "
                    f"{queue} is above its own (reclaim)"
                )


_DISMISSED = {
    Reason.SUSPENDED: "Evicted: it is suspended, and its kind has no switch of its own",
    Reason.MAX_RUN_TIME_REACHED: "Ended at the maximum run time of queue {queue}",
    Reason.GPUS_IDLE: "Evicted by the rule of queue {queue} for idle jobs: its GPUs were not used",
    Reason.QUEUE_DRAINED: "Evicted: queue {queue} is drained and its deadline has passed",
}


def evictions(plan: Plan) -> Iterator[Eviction]:
    """The pods that a plan evicts, in the order decided."""
    rows = zip(
        plan.evict_task.tolist(), plan.evict_reason.tolist(), plan.evict_for.tolist(), strict=True
    )
    for task, reason, beneficiary in rows:
        yield Eviction(task, Reason(reason), beneficiary)

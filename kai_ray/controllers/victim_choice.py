"""Who may be a victim beyond what the core knows: what nobody would make again goes last or never.

A bare pod that is evicted is lost, so bare gangs are offered to the core only in a second look,
when the first one found no victims and somebody still waits for room. A RayJob that loses its
attempt goes before those, but after all that can be suspended: that is for the core to see to
(scheduler/actions/last_resort.py). A Ray cluster whose head its operator will not make again, and
that has neither a switch nor another attempt, is never offered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from kai_ray.cluster.port import Key
from kai_ray.encode import Encoded
from kai_ray.scheduler import Plan, Snapshot
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import ALLOCATED, Bools

#: Waits that no victim ends.
_HOPELESS = frozenset(
    {
        Reason.GANG_INCOMPLETE,
        Reason.POD_GATED,
        Reason.QUEUE_NOT_FOUND,
        Reason.QUEUE_NOT_A_LEAF,
        Reason.QUEUE_PAUSED,
        Reason.WAITING_FOR_RELEASE,
        Reason.WAITING_FOR_VICTIMS,
    }
)


def choose(
    encoded: Encoded, never: set[Key], resort: set[Key], decide: Callable[[Snapshot], Plan]
) -> Plan:
    """The Plan of a cycle: bare gangs are victims only if nothing else helps.

    `never` are gangs that nobody would make again, `resort` those that lose an attempt.
    """
    row_of = {key: row for row, key in enumerate(encoded.names.gangs)} if never or resort else {}
    snapshot = _of_last_resort(encoded.snapshot, _rows(resort, row_of))
    irreplaceable = np.zeros(snapshot.gangs.count, dtype=np.bool_)
    irreplaceable[_rows(never, row_of)] = True
    last = encoded.bare & _holding(snapshot)
    plan = decide(_safe(snapshot, irreplaceable | last))
    if not last.any() or plan.evict_task.size or not _somebody_waits(plan):
        return plan
    second = decide(_safe(snapshot, irreplaceable))
    return second if second.evict_task.size else plan


def _rows(keys: set[Key], row_of: dict[Key, int]) -> list[int]:
    return [row_of[key] for key in keys if key in row_of]


def _of_last_resort(snapshot: Snapshot, rows: list[int]) -> Snapshot:
    """The same picture, in which the minimum of these gangs goes after all that can come back."""
    if not rows:
        return snapshot
    column = np.zeros(snapshot.gangs.count, dtype=np.bool_)
    column[rows] = True
    return dataclasses.replace(
        snapshot, gangs=dataclasses.replace(snapshot.gangs, last_resort=column)
    )


def _holding(snapshot: Snapshot) -> Bools:
    tasks = snapshot.tasks
    found = np.zeros(snapshot.gangs.count, dtype=np.bool_)
    there = np.isin(tasks.state, [int(s) for s in ALLOCATED]) & (tasks.gang >= 0)
    found[tasks.gang[there]] = True
    return found & snapshot.gangs.preemptible


def _somebody_waits(plan: Plan) -> bool:
    return any(wait.reason not in _HOPELESS for wait in plan.waits)


def _safe(snapshot: Snapshot, gangs: Bools) -> Snapshot:
    """The same picture, in which the minimum of `gangs` [G] stays."""
    if not gangs.any():
        return snapshot
    known = snapshot.gangs.core_safe
    safe = gangs if known is None else known | gangs
    return dataclasses.replace(snapshot, gangs=dataclasses.replace(snapshot.gangs, core_safe=safe))

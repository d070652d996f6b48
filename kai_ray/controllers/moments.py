"""When time alone changes what would be decided: the next cycle is due then."""

from __future__ import annotations

import numpy as np

from kai_ray.scheduler import Policy
from kai_ray.scheduler.actions.stale_gang import stale_gangs
from kai_ray.scheduler.snapshot import Floats, Snapshot, TaskState, stated

NEVER = float("inf")


def next_moment(snapshot: Snapshot, policy: Policy) -> float:
    """The first moment after the snapshot's; inf = none. Vector steps only."""
    gangs, now, knobs = snapshot.gangs, snapshot.now_s, policy.evicting
    found = [NEVER]
    if gangs.hold_until_s is not None:
        found.append(_after(gangs.hold_until_s, now))
    if gangs.stale_since_s is not None:
        grace = stated(gangs.staleness_grace_s, gangs.count, knobs.staleness_grace_s)
        due = np.where((grace >= 0) & stale_gangs(snapshot), gangs.stale_since_s + grace, np.nan)
        found.append(_after(due, now))
    if not (snapshot.tasks.state == TaskState.PENDING).any():
        return min(found)  # the rest matters to those who wait
    if gangs.preemption_delay_s is not None:
        since = gangs.created_s
        if gangs.last_eviction_s is not None:
            since = np.fmax(since, gangs.last_eviction_s)
        found.append(_after(since + gangs.preemption_delay_s, now))
    queues = snapshot.queues
    times = {knobs.preempt_min_runtime_s, knobs.reclaim_min_runtime_s}
    for column in (queues.preempt_min_runtime_s, queues.reclaim_min_runtime_s):
        if column is not None:
            times.update(np.unique(column[~np.isnan(column)]).tolist())
    found += [_after(gangs.last_start_s + seconds, now) for seconds in times if seconds > 0]
    return min(found)


def _after(moments: Floats, now: float) -> float:
    later = moments[moments > now]  # NaN is not
    return float(later.min()) if later.size else NEVER

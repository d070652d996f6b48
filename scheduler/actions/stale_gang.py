"""Take away what is left of a gang that has run below its minimum for too long.

What: a gang that lost pods and holds fewer than its minimum has a grace period to get them back;
then all that is left of it goes.
Why: part of a gang makes no progress and keeps its room from others.
Limits: a pod that has succeeded has done its part and counts as if it were there: a gang that ends
pod by pod is left alone. The grace is the gang's own or the policy's; a negative one means never.
Neither preemptibility nor minimum runtimes are asked.
Cost: a few vector steps.

Source: KAI 0.17, stale gang eviction. KAI asks for the minimum of every leaf; here a set that needs
k of its children is satisfied by k. In KAI one pod that has succeeded keeps the whole gang from
ever being stale.
"""

from __future__ import annotations

import numpy as np

from ..gang_state import leaf_counts, met
from ..reason import Reason
from ..session import Evicted, Session
from ..snapshot import ALLOCATED, USED, Bools, Snapshot, TaskState, stated

_DONE = (TaskState.SUCCEEDED,)


def stale_gang(session: Session) -> None:
    """Evicts gangs that have been stale for longer than their grace."""
    snapshot = session.snapshot
    gangs, tasks = snapshot.gangs, snapshot.tasks
    stale = stale_gangs(snapshot)
    if not stale.any():
        return
    grace = stated(gangs.staleness_grace_s, gangs.count, session.policy.evicting.staleness_grace_s)
    since = stated(gangs.stale_since_s, gangs.count, snapshot.now_s)
    due = stale & (grace >= 0) & (snapshot.now_s - since >= grace)
    gone = {task for one in session.evicted for task in one.tasks}
    there = np.isin(tasks.state, [int(s) for s in ALLOCATED]) & (tasks.gang >= 0)
    for gang in np.flatnonzero(due).tolist():
        rows = np.flatnonzero(there & (tasks.gang == gang)).tolist()
        left = tuple(task for task in rows if task not in gone)
        if left and not _grows(session, gang):
            session.evicted.append(Evicted(left, Reason.STALE_GANG, -1))


def stale_gangs(snapshot: Snapshot) -> Bools:
    """[G] gangs that hold pods, but with those that have succeeded fewer than their minimum."""
    gangs, tasks, subgroups = snapshot.gangs, snapshot.tasks, snapshot.subgroups
    used = leaf_counts(subgroups, tasks, USED)
    holds = np.bincount(subgroups.gang, used, minlength=gangs.count) > 0
    done = leaf_counts(subgroups, tasks, _DONE)
    return holds & ~met(subgroups, used + done)[gangs.root]


def _grows(session: Session, gang: int) -> bool:
    """Whether this cycle gave the gang the pods that it lacks."""
    snapshot = session.snapshot
    held = np.array(session.ledger.held, dtype=np.int64)
    done = leaf_counts(snapshot.subgroups, snapshot.tasks, _DONE)
    return bool(met(snapshot.subgroups, held + done)[int(snapshot.gangs.root[gang])])

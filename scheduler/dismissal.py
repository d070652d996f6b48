"""Gangs that have to go whatever others want: their room is released before anything is decided.

What: a gang that its user suspended, that has used up the run time of its queue, or whose queue is
being emptied, loses all its pods. Nobody benefits in particular, so no rule between queues, no
minimum runtime and no disruption budget is asked.
Cost: one vector step; nothing where no gang has to go.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from .reason import Reason
from .session import Evicted
from .snapshot import ALLOCATED, Snapshot, TaskState


def dismissed(snapshot: Snapshot) -> tuple[Snapshot, list[Evicted]]:
    """The picture in which those pods are leaving already, and the evictions that make it true."""
    leave = snapshot.gangs.leave
    if leave is None or not leave.any():
        return snapshot, []
    tasks = snapshot.tasks
    there = np.isin(tasks.state, [int(s) for s in ALLOCATED]) & (tasks.gang >= 0)
    rows = np.flatnonzero(there & (leave[tasks.gang] != int(Reason.NONE)))
    if not rows.shape[0]:
        return snapshot, []
    rows = rows[np.lexsort((tasks.rank[rows], snapshot.gangs.rank[tasks.gang[rows]]))]
    gang = tasks.gang[rows]
    starts = np.flatnonzero(np.diff(gang, prepend=-1))
    found = [
        Evicted(tuple(part.tolist()), Reason(int(leave[tasks.gang[part[0]]])), -1)
        for part in np.split(rows, starts[1:])
    ]
    state = tasks.state.copy()
    state[rows] = TaskState.RELEASING
    tasks = dataclasses.replace(tasks, state=state)
    return dataclasses.replace(snapshot, tasks=tasks), found

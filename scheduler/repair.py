"""A gang that holds some of its minimum, but not all of it, comes before all that has not started.

It lost a pod, was cut short while it was being bound, or some of its pods were moved. What it holds
is of no use until it has the rest, so its minimum is placed first; growth waits its turn.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .actions.attempt import Attempt
from .gang_state import BELOW_MINIMUM, satisfied
from .session import Session
from .snapshot import ALLOCATED, Snapshot, TaskState


def broken(snapshot: Snapshot) -> list[int]:
    """Gangs that hold pods, not their minimum, and have pods that wait."""
    tasks, gangs = snapshot.tasks, snapshot.gangs
    ours = tasks.gang >= 0
    holds = np.zeros(gangs.count, dtype=np.bool_)
    holds[tasks.gang[ours & np.isin(tasks.state, [int(s) for s in ALLOCATED])]] = True
    waits = np.zeros(gangs.count, dtype=np.bool_)
    waits[tasks.gang[ours & (tasks.state == TaskState.PENDING)]] = True
    some = holds & waits
    if some.any():
        some &= ~satisfied(snapshot.subgroups, gangs.root, tasks)
    return np.flatnonzero(some).tolist()


def repair(
    session: Session,
    gangs: list[int],
    place: Callable[[int, Attempt], bool],
) -> None:
    """Places what these gangs lack of their minimum, one after the other.

    `place(gang, attempt)` says whether the attempt found its place.
    """
    attempts = session.attempts
    for gang in gangs:
        while attempts.elastic(gang) == BELOW_MINIMUM and (attempt := attempts.next(gang)).runs:
            if not place(gang, attempt):
                break
            attempts.moved(gang)

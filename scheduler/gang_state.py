"""Does a gang meet its minimum: for all gangs at once, from counts per leaf.

The same rule answers two questions. With the pods that could run it says *ready*: the gang may be
tried. With the pods that hold a place it says *satisfied*: the gang has what it needs.
"""

from __future__ import annotations

import numpy as np

from .shares.tree import levels
from .snapshot import ALLOCATED, Bools, Bytes, Codes, Ints, SubGroups, Tasks, TaskState

#: Pods that count towards being ready: those that hold a place and those that may get one.
_RUNNABLE = (*ALLOCATED, TaskState.PENDING)


def leaf_counts(subgroups: SubGroups, tasks: Tasks, states: tuple[TaskState, ...]) -> Ints:
    """[S] pods of each leaf in one of `states`; 0 for sets."""
    rows = (tasks.leaf >= 0) & np.isin(tasks.state, [int(s) for s in states])
    return np.bincount(tasks.leaf[rows], minlength=subgroups.gang.shape[0]).astype(np.int64)


def met(subgroups: SubGroups, counts: Ints) -> Bools:
    """[S] whether each subgroup meets its minimum.

    A leaf needs `minimum` pods of `counts` [S]; a set needs `minimum` direct children that meet
    theirs. A minimum of 0 is always met.
    """
    have = np.where(subgroups.leaf, counts, 0)
    fine = have >= subgroups.minimum
    for rows in reversed(levels(subgroups.parent)[1:]):
        good = rows[fine[rows]]
        np.add.at(have, subgroups.parent[good], 1)
        above = np.flatnonzero(np.bincount(subgroups.parent[rows]))
        fine[above] = have[above] >= subgroups.minimum[above]
    return fine


def ready(subgroups: SubGroups, roots: Codes, tasks: Tasks) -> Bools:
    """[G] gangs whose running and pending pods would meet every minimum that counts."""
    return met(subgroups, leaf_counts(subgroups, tasks, _RUNNABLE))[roots]


def satisfied(subgroups: SubGroups, roots: Codes, tasks: Tasks) -> Bools:
    """[G] gangs that hold their minimum now."""
    return met(subgroups, leaf_counts(subgroups, tasks, ALLOCATED))[roots]


BELOW_MINIMUM, AT_MINIMUM, ABOVE_MINIMUM = 0, 1, 2


def elastic_state(subgroups: SubGroups, gangs: int, allocated: Ints) -> Bytes:
    """[G] 0 = some leaf below its minimum, 1 = every leaf exactly at it, 2 = some leaf above it.

    `allocated` [S] counts pods that hold a place, nominated ones included. Every leaf counts, also
    one that its set could do without.
    """
    leaf = subgroups.leaf
    gang = subgroups.gang[leaf]
    spare = allocated[leaf] - subgroups.minimum[leaf]
    below = np.bincount(gang[spare < 0], minlength=gangs) > 0
    above = np.bincount(gang[spare > 0], minlength=gangs) > 0
    return np.where(below, BELOW_MINIMUM, np.where(above, ABOVE_MINIMUM, AT_MINIMUM)).astype(
        np.int8
    )

"""Lent pods on the arrays: who could use their room, and how much room is left to lend.

A lent pod is one above the number its user asked for. In the picture that is decided on, its place
is about to be free, so whoever waits is put in line for it before anybody is evicted; one that has
no place yet takes part in nothing. So lending never costs anybody a start, only the time in which
lent pods end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kai_ray.scheduler import Plan, Snapshot
from kai_ray.scheduler.snapshot import ALLOCATED, USED, Tasks, TaskState

_HOLDS = np.array([int(s) for s in ALLOCATED])
_USED = np.array([int(s) for s in USED])
_NO_PRIORITY = np.iinfo(np.int64).min


class Offer(NamedTuple):
    """Pods that a gang could add: equals of task row `like`."""

    like: int
    pods: int


def veiled(snapshot: Snapshot, lent: Sequence[int]) -> Snapshot:
    """The picture in which lent pods (task rows) are about to leave, or do not want to start."""
    if not lent:
        return snapshot
    state = snapshot.tasks.state.copy()
    rows = np.array(lent, dtype=np.int64)
    state[rows[np.isin(state[rows], _HOLDS)]] = TaskState.RELEASING
    state[rows[state[rows] == TaskState.PENDING]] = TaskState.GATED
    return dataclasses.replace(snapshot, tasks=dataclasses.replace(snapshot.tasks, state=state))


def wanted_back(snapshot: Snapshot, plan: Plan, lent: Sequence[int]) -> list[int]:
    """The lent pods whose places the Plan has promised: first those that `lent` names first.

    `snapshot` is the one before `veiled`.
    """
    tasks, request = snapshot.tasks, snapshot.classes.request
    standing = [row for row in lent if tasks.node[row] >= 0 and tasks.state[row] in _HOLDS]
    found: list[int] = []
    for node in sorted({int(n) for n in plan.nominate_node}):
        mine = [row for row in standing if int(tasks.node[row]) == node]
        if not mine:
            continue
        here = (tasks.node == node) & np.isin(tasks.state, _USED)
        leaving = here & (tasks.state == TaskState.RELEASING)
        stays = request[:, tasks.klass[here & ~leaving]].sum(axis=1)
        arrives = request[:, tasks.klass[plan.bind_task[plan.bind_node == node]]].sum(axis=1)
        comes = request[:, tasks.klass[plan.nominate_task[plan.nominate_node == node]]].sum(axis=1)
        short = stays + arrives + comes - snapshot.nodes.allocatable[:, node]
        taken: list[int] = []
        for row in mine:
            if not (short > 0).any():
                break
            taken.append(row)
            short = short - request[:, tasks.klass[row]]
        if not taken and not leaving.any():
            taken = mine  # what is short there is no plain amount (devices, ports, peers)
        found += taken
    return found


def offered(snapshot: Snapshot, offers: Sequence[Offer]) -> Snapshot:
    """The picture with more pods waiting, at the end of the tasks, offer by offer."""
    tasks = snapshot.tasks
    like = np.repeat([o.like for o in offers], [o.pods for o in offers]).astype(np.int64)
    more = like.shape[0]

    def longer(column: np.ndarray, values: np.ndarray | int | float) -> np.ndarray:
        return np.concatenate([column, np.full(more, values).astype(column.dtype)])

    last = int(tasks.rank.max(initial=-1)) + 1
    columns = {
        "gang": longer(tasks.gang, tasks.gang[like]),
        "leaf": longer(tasks.leaf, tasks.leaf[like]),
        "klass": longer(tasks.klass, tasks.klass[like]),
        "state": longer(tasks.state, int(TaskState.PENDING)),
        "node": longer(tasks.node, -1),
        "role": longer(tasks.role, tasks.role[like]),
        "task_priority": longer(tasks.task_priority, _NO_PRIORITY),
        "created_s": longer(tasks.created_s, snapshot.now_s),
        "rank": longer(tasks.rank, np.arange(last, last + more)),
        "nominated": longer(tasks.nominated, -1),
    }
    if tasks.budget is not None:
        columns["budget"] = longer(tasks.budget, -1)
    return dataclasses.replace(snapshot, tasks=Tasks(**columns))


def granted(plan: Plan, offers: Sequence[Offer], first: int) -> list[int]:
    """How many pods of each offer found a place now; offers begin at task row `first`."""
    counts: list[int] = []
    for offer in offers:
        mine = (plan.bind_task >= first) & (plan.bind_task < first + offer.pods)
        counts.append(int(np.count_nonzero(mine)))
        first += offer.pods
    return counts

"""The record of one cycle: what was seen and what was decided."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kai_ray.cluster.port import Key
from kai_ray.encode import Encoded
from kai_ray.scheduler import Plan
from kai_ray.scheduler.snapshot import Bools, Snapshot, TaskState


@dataclass(frozen=True, slots=True)
class Cycle:
    """`state` [T] is where each pod stands after the Plan was carried out, as far as it was."""

    number: int
    encoded: Encoded
    plan: Plan
    state: NDArray[np.int8]


def carried_out(
    number: int,
    encoded: Encoded,
    plan: Plan,
    failing: Iterable[Key] = (),
    leaving: Sequence[int] = (),
) -> Cycle:
    """The record of a cycle. Binds of `failing` pods have not happened, whatever is hoped.

    `leaving`: task rows that were evicted.
    """
    state = encoded.snapshot.tasks.state.copy()
    rows, until_then = encoded.told
    state[rows] = until_then
    state[plan.bind_task] = TaskState.BINDING
    for pod in failing:
        row = encoded.names.row_of(pod)
        if row >= 0 and state[row] == TaskState.BINDING:
            state[row] = TaskState.PENDING
    state[list(leaving)] = TaskState.RELEASING
    return Cycle(number, encoded, plan, state)


def only(snapshot: Snapshot, gangs: Bools) -> Snapshot:
    """The same picture, in which nothing but `gangs` [G] may start."""
    tasks = snapshot.tasks
    state = tasks.state.copy()
    others = (tasks.gang >= 0) & (state == TaskState.PENDING)
    others &= ~gangs[tasks.gang]
    state[others] = TaskState.GATED
    return dataclasses.replace(snapshot, tasks=dataclasses.replace(tasks, state=state))


def members(encoded: Encoded, gang: int) -> list[Key]:
    """The pods of a gang that hold or want a place, by name."""
    rows = np.flatnonzero(encoded.snapshot.tasks.gang == gang)
    return [encoded.names.pod(int(row)) for row in rows]

"""The figures of gangs and queues after a cycle, all at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kai_ray.cluster.port import Key
from kai_ray.controllers.cycle import Cycle
from kai_ray.scheduler.gang_state import leaf_counts, met
from kai_ray.scheduler.gpu.facts import GpuKind
from kai_ray.scheduler.gpu.prices import held as charged
from kai_ray.scheduler.gpu.prices import priced
from kai_ray.scheduler.snapshot import (
    ALLOCATED,
    GPU,
    QUEUE_RESOURCES,
    Bools,
    Codes,
    Floats,
    Ints,
    Snapshot,
    TaskState,
)

_PENDING = (TaskState.PENDING, TaskState.GATED)


@dataclass(frozen=True, slots=True)
class GangFacts:
    """Columns per gang; `row_of` finds a PodGroup."""

    keys: list[Key]
    row_of: dict[Key, int]
    figures: NDArray[np.int64]
    """[8 + 2R, G]: pending, gated, placed, running, succeeded, satisfied, running enough, minimum,
    then allocated and requested per resource, GPUs in hundredths: see `amounts`."""
    resources: tuple[str, ...]
    preemptible: Bools


PENDING, GATED, PLACED, RUNNING, SUCCEEDED, SATISFIED, READY, MINIMUM = range(8)
FIRST_AMOUNT = 8
_HUNDREDTHS = 100


def amounts(figures: Sequence[int], gangs: GangFacts, requested: bool) -> list[float]:
    """A gang's allocated or requested amounts per resource; GPUs with their parts."""
    rows = len(gangs.resources)
    first = FIRST_AMOUNT + rows * requested
    found: list[float] = [float(value) for value in figures[first : first + rows]]
    found[GPU] /= _HUNDREDTHS
    return found


def gang_facts(cycle: Cycle) -> GangFacts:
    """Counted from the snapshot and from what the binder made of the Plan."""
    encoded, snapshot = cycle.encoded, cycle.encoded.snapshot
    count, tasks, state = snapshot.gangs.count, snapshot.tasks, cycle.state
    mine = tasks.gang >= 0
    gang = tasks.gang[mine]
    resources = snapshot.resources
    figures = np.zeros((FIRST_AMOUNT + 2 * len(resources), count), dtype=np.int64)

    def number(states: tuple[TaskState, ...]) -> NDArray[np.int64]:
        rows = np.isin(state[mine], [int(s) for s in states])
        return np.bincount(gang[rows], minlength=count)

    figures[PENDING] = number((TaskState.PENDING,))
    figures[GATED] = number((TaskState.GATED,))
    figures[PLACED] = number(ALLOCATED)
    figures[RUNNING] = number((TaskState.RUNNING,))
    figures[SUCCEEDED] = number((TaskState.SUCCEEDED,))
    _minimums(snapshot, state, figures)
    _amounts(snapshot, state, figures)
    return GangFacts(
        encoded.names.gangs,
        {key: i for i, key in enumerate(encoded.names.gangs)},
        figures,
        resources,
        snapshot.gangs.preemptible,
    )


def _minimums(snapshot: Snapshot, state: NDArray[np.int8], figures: NDArray[np.int64]) -> None:
    subgroups, root = snapshot.subgroups, snapshot.gangs.root
    tasks = dataclasses.replace(snapshot.tasks, state=state)
    held = leaf_counts(subgroups, tasks, ALLOCATED)
    done = leaf_counts(subgroups, tasks, (TaskState.RUNNING, TaskState.SUCCEEDED))
    figures[SATISFIED] = met(subgroups, held)[root]
    figures[READY] = met(subgroups, done)[root]
    least = np.where(subgroups.leaf, subgroups.minimum, 0)
    np.add.at(figures[MINIMUM], subgroups.gang, least)


def _amounts(snapshot: Snapshot, state: NDArray[np.int8], figures: NDArray[np.int64]) -> None:
    snapshot = priced(snapshot)
    tasks, request = snapshot.tasks, snapshot.classes.request
    rows = len(snapshot.resources)
    held = np.isin(state, [int(s) for s in ALLOCATED])
    asked = held | np.isin(state, [int(s) for s in _PENDING])
    for first, which in ((FIRST_AMOUNT, held), (FIRST_AMOUNT + rows, asked)):
        picked = np.flatnonzero(which & (tasks.gang >= 0))
        gang, klass = tasks.gang[picked], tasks.klass[picked]
        for r in range(rows):
            sums = np.bincount(gang, weights=request[r, klass], minlength=figures.shape[1])
            figures[first + r] = sums.astype(np.int64)
        parts = np.where(
            _counts_whole(snapshot)[klass], request[GPU, klass], charged(snapshot, picked)[GPU]
        )
        sums = np.bincount(gang, weights=parts, minlength=figures.shape[1])
        figures[first + GPU] = np.rint(sums * _HUNDREDTHS).astype(np.int64)


def _counts_whole(snapshot: Snapshot) -> Bools:
    """[C] classes whose GPUs are whole ones, and not parts, slices or claims."""
    gpus = snapshot.gpus
    if gpus is None:
        return np.ones(snapshot.classes.count, dtype=np.bool_)
    return np.isin(gpus.kind, [int(GpuKind.NONE), int(GpuKind.WHOLE)])


@dataclass(frozen=True, slots=True)
class QueueFacts:
    names: list[str]
    allocated: Floats  # [3, Q]
    held: Floats  # [3, Q] of that, non-preemptible
    requested: Floats  # [3, Q]
    fair_share: Floats  # [3, Q]
    pending: Ints  # [Q] gangs that wait for their start
    children: list[list[str]]


def queue_facts(cycle: Cycle, gangs: GangFacts) -> QueueFacts:
    snapshot = cycle.encoded.snapshot
    queues, names = snapshot.queues, cycle.encoded.names.queues
    rows = len(gangs.resources)
    allocated = gangs.figures[FIRST_AMOUNT : FIRST_AMOUNT + QUEUE_RESOURCES].astype(np.float64)
    requested = gangs.figures[FIRST_AMOUNT + rows : FIRST_AMOUNT + rows + QUEUE_RESOURCES].astype(
        np.float64
    )
    allocated[GPU] /= _HUNDREDTHS
    requested[GPU] /= _HUNDREDTHS
    waiting = (gangs.figures[SATISFIED] == 0) & (gangs.figures[PENDING] + gangs.figures[GATED] > 0)
    children: list[list[str]] = [[] for _ in names]
    for row, parent in enumerate(queues.parent.tolist()):
        if parent >= 0:
            children[parent].append(names[row])
    up = _Upwards(queues.parent, snapshot.gangs.queue)
    return QueueFacts(
        names=names,
        allocated=up.sums(allocated),
        held=up.sums(np.where(gangs.preemptible, 0.0, allocated)),
        requested=up.sums(requested),
        fair_share=cycle.plan.fair_share,
        pending=up.sums(waiting[None, :].astype(np.float64))[0].astype(np.int64),
        children=[sorted(c) for c in children],
    )


class _Upwards:
    """Sums of gang columns per queue, descendants included."""

    def __init__(self, parent: Codes, queue: Codes) -> None:
        self._parent = parent
        self._queue = queue

    def sums(self, columns: Floats) -> Floats:
        count = self._parent.shape[0]
        known = self._queue >= 0
        found = np.stack(
            [np.bincount(self._queue[known], weights=c[known], minlength=count) for c in columns]
        ).astype(np.float64)
        for row in range(count - 1, -1, -1):  # children come after parents
            if self._parent[row] >= 0:
                found[:, self._parent[row]] += found[:, row]
        return found

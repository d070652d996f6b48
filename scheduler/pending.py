"""The pending pods of every leaf, in the order in which they are tried, as runs of equals.

A leaf takes its pods from the front and gives them back there, so a number per leaf says where it
stands: the ledger's `waiting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .snapshot import Codes, Snapshot, Tasks, TaskState

#: (first pod, pods, klass, nominated node of the snapshot or -1)
Run = tuple[int, int, int, int]


class Pending:
    """Pods waiting for a node, grouped by leaf. Positions index `order`."""

    def __init__(self, snapshot: Snapshot, task_order: Callable[[Tasks, Codes], Codes]) -> None:
        tasks = snapshot.tasks
        rows = np.flatnonzero((tasks.state == TaskState.PENDING) & (tasks.leaf >= 0))
        self.order: Codes = task_order(tasks, rows.astype(np.int32))
        """[P] rows of the snapshot's tasks."""
        leaf, klass = tasks.leaf[self.order], tasks.klass[self.order]
        nominated = tasks.nominated[self.order]
        leaves = np.arange(int(snapshot.subgroups.gang.shape[0]), dtype=np.int32)
        self._end: list[int] = np.searchsorted(leaf, leaves, side="right").tolist()
        self._klass: list[int] = klass.tolist()
        self._nominated: list[int] = nominated.tolist()
        self._run_end: list[int] = _run_ends(leaf, klass, nominated).tolist()

    def next(self, leaf: int, waiting: int, pods: int) -> Iterator[Run]:
        """The next `pods` pods of a leaf of which `waiting` still wait, as runs of equals."""
        at = self._end[leaf] - waiting
        while pods > 0:
            count = min(self._run_end[at] - at, pods)
            yield at, count, self._klass[at], self._nominated[at]
            at += count
            pods -= count


def _run_ends(leaf: Codes, klass: Codes, nominated: Codes) -> Codes:
    """For each position, the end of its run of equal pods. Nominated pods stand alone."""
    count = int(leaf.shape[0])
    breaks = np.ones(count, dtype=np.bool_)
    breaks[:-1] = (
        (leaf[1:] != leaf[:-1])
        | (klass[1:] != klass[:-1])
        | (nominated[1:] != -1)
        | (nominated[:-1] != -1)
    )
    ends = np.flatnonzero(breaks) + 1
    return ends[np.searchsorted(ends, np.arange(count), side="right")].astype(np.int32)

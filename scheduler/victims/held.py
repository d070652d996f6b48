"""The pods that hold a place, by leaf in task order: what an eviction may take, from the end.

A position counts in `order`, which continues that of the pending pods, so that one number names a
pod whether it waits or runs. Heads and masters stand first and so go last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from ..ledger import Ledger
from ..pending import Pending, Run
from ..snapshot import ALLOCATED, Codes, Ints, Tasks


class Held:
    """Pods that run or are about to; `of(leaf)` shrinks as pods are evicted or moved for good."""

    def __init__(
        self, ledger: Ledger, pending: Pending, task_order: Callable[[Tasks, Codes], Codes]
    ) -> None:
        tasks = ledger.snapshot.tasks
        there = np.isin(tasks.state, [int(s) for s in ALLOCATED])
        there &= (tasks.leaf >= 0) & (ledger.node_of >= 0)
        rows = task_order(tasks, np.flatnonzero(there).astype(np.int32))
        self.base = int(pending.order.shape[0])
        self.order: Codes = np.concatenate((pending.order, rows))
        """[P + H] rows of the snapshot's tasks."""
        self.klass: Codes = tasks.klass[rows]
        self.node: Codes = ledger.node_of[rows]
        """[H] class and node (of the ledger) of each held pod."""
        self._klass: list[int] = self.klass.tolist()
        self._node: list[int] = self.node.tolist()
        self._origin: list[int] = tasks.node[rows].tolist()
        leaf = tasks.leaf[rows]
        leaves = np.arange(int(ledger.snapshot.subgroups.gang.shape[0]), dtype=np.int32)
        start: Ints = np.searchsorted(leaf, leaves, side="left") + self.base
        end: Ints = np.searchsorted(leaf, leaves, side="right") + self.base
        self._start: list[int] = start.tolist()
        self._end: list[int] = end.tolist()
        self._left: dict[int, list[int]] = {}

    def of(self, leaf: int) -> Sequence[int]:
        """Positions of a leaf's pods that could still be evicted, ascending."""
        left = self._left.get(leaf)
        return range(self._start[leaf], self._end[leaf]) if left is None else left

    def count(self, leaf: int) -> int:
        """Pods of a leaf that could still be evicted."""
        return len(self.of(leaf))

    def drop(self, leaf: int, positions: Collection[int]) -> None:
        """These pods left, or have been moved: nobody may evict them again."""
        self._left[leaf] = [p for p in self.of(leaf) if p not in positions]

    def task(self, position: int) -> int:
        """The pod's row of the snapshot."""
        return int(self.order[position])

    def klass_of(self, position: int) -> int:
        return self._klass[position - self.base]

    def node_of(self, position: int) -> int:
        """The ledger's node of a held pod."""
        return self._node[position - self.base]

    def runs(self, positions: Sequence[int]) -> Iterator[Run]:
        """Held pods as runs of equals that stand on one node, each wishing to go back there."""
        at = 0
        while at < len(positions):
            first = positions[at]
            kind = self._klass[first - self.base], self._node[first - self.base]
            count = 1
            while (
                at + count < len(positions)
                and positions[at + count] == first + count
                and kind
                == (self._klass[first + count - self.base], self._node[first + count - self.base])
            ):
                count += 1
            yield first, count, kind[0], self._origin[first - self.base]
            at += count

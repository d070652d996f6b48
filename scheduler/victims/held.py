"""The pods that hold a place, by leaf in task order: what an eviction may take, from the end.

A position names a pod whether it waits or holds a place: pending pods first, then those that held a
place when the cycle began, then those that this cycle gave one. Heads and masters stand first in
their leaf and so go last; what was given in this cycle goes before what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np

from ..ledger import Ledger
from ..pending import Pending, Run
from ..session import Placed
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
        self._tasks: list[int] = [*pending.order.tolist(), *rows.tolist()]
        self._klass: list[int] = tasks.klass[rows].tolist()
        self._node: list[int] = ledger.node_of[rows].tolist()
        self._origin: list[int] = tasks.node[rows].tolist()
        self._given = len(self._tasks)  # the first position that this cycle gave a place
        self._from: dict[int, Placed] = {}
        leaf = tasks.leaf[rows]
        leaves = np.arange(int(ledger.snapshot.subgroups.gang.shape[0]), dtype=np.int32)
        start: Ints = np.searchsorted(leaf, leaves, side="left") + self.base
        end: Ints = np.searchsorted(leaf, leaves, side="right") + self.base
        self._start: list[int] = start.tolist()
        self._end: list[int] = end.tolist()
        self._left: dict[int, list[int]] = {}
        self._gpus = ledger.gpus

    @property
    def order(self) -> Codes:
        """Rows of the snapshot's tasks by position."""
        return np.array(self._tasks, dtype=np.int32)

    def add(self, placed: Iterable[Placed], origin: Codes) -> None:
        """Pods that were given a place in this cycle; `origin` maps the ledger's nodes back."""
        for one in placed:
            left = self._left.setdefault(one.leaf, list(self.of(one.leaf)))
            for first in range(one.first, one.first + one.pods):
                position = len(self._tasks)
                left.append(position)
                self._tasks.append(self._tasks[first])
                self._klass.append(one.klass)
                self._node.append(one.node)
                self._origin.append(int(origin[one.node]))
                self._from[position] = one._replace(first=first, pods=1)

    def given(self, position: int) -> Placed | None:
        """How this cycle placed the pod; None if it held its place before."""
        return self._from.get(position) if position >= self._given else None

    def slots_of(self, position: int) -> tuple[int, ...]:
        """Devices of its node that the pod shares."""
        if self._gpus is None or not self._gpus.shares[self.klass_of(position)]:
            return ()
        given = self.given(position)
        return self._gpus.slots_of(self.task(position)) if given is None else given.slots

    def kinds(self, first: int, pods: int) -> Iterator[tuple[int, tuple[int, ...], bool]]:
        """Equal pods as (pods, devices that they share, whether they only wait for their room)."""
        if self._gpus is None or not self._gpus.moves[self.klass_of(first)]:
            yield pods, (), False
            return
        for position in range(first, first + pods):
            given = self.given(position)
            yield 1, self.slots_of(position), given is not None and given.later

    def slots(self, first: int, pods: int) -> tuple[int, ...]:
        """Devices that the pods at `first` and on share, those of all of them."""
        positions = range(first, first + pods)
        return tuple(slot for position in positions for slot in self.slots_of(position))

    def firm(self, position: int) -> int:
        """1 if the pod runs or is about to, 0 if it waits for room to be freed."""
        given = self.given(position)
        return 1 if given is None or not given.later else 0

    def of(self, leaf: int) -> Sequence[int]:
        """Positions of a leaf's pods that could still be evicted, in task order."""
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
        return self._tasks[position]

    def klass_of(self, position: int) -> int:
        return self._klass[position - self.base]

    def node_of(self, position: int) -> int:
        """The ledger's node of a pod that holds a place."""
        return self._node[position - self.base]

    def runs(self, positions: Sequence[int]) -> Iterator[Run]:
        """Held pods as runs of equals that stand on one node, each wishing to go back there."""
        at, base = 0, self.base
        while at < len(positions):
            first = positions[at]
            kind = self._klass[first - base], self._node[first - base]
            count = 1
            while at + count < len(positions) and positions[at + count] == first + count:
                other = first + count - base
                if kind != (self._klass[other], self._node[other]):
                    break
                count += 1
            yield first, count, kind[0], self._origin[first - base]
            at += count

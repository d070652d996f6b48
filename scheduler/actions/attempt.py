"""What the next attempt of each gang consists of: which pods, which classes, what charge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..gang_state import elastic_state
from ..ledger import Ledger
from ..orders.subgroup_order import GangTree, gang_tree, tasks_to_allocate
from ..pending import Pending, Run
from ..shares.row import NOTHING, Amounts


class Attempt(NamedTuple):
    """Pods that are placed together or not at all."""

    runs: tuple[tuple[int, Run], ...]  # (leaf, run of equal pods), in the order of placement
    pods: int
    need: Amounts  # charged to the queue: millicores, bytes, GPUs


_NO_PODS = Attempt((), 0, NOTHING)


class Attempts:
    """The next attempt of every gang, kept until the gang moves."""

    def __init__(self, ledger: Ledger, pending: Pending) -> None:
        snapshot = ledger.snapshot
        subgroups, gangs = snapshot.subgroups, snapshot.gangs
        self._ledger, self._pending, self._subgroups = ledger, pending, subgroups
        size = np.bincount(subgroups.gang, minlength=gangs.count)
        self._size: list[int] = size.tolist()
        self._root: list[int] = gangs.root.tolist()
        self._minimum: list[int] = subgroups.minimum.tolist()
        self._is_leaf: list[bool] = subgroups.leaf.tolist()
        self._charge: list[Amounts] = [
            (a, b, c) for a, b, c in snapshot.classes.queue_request.T.tolist()
        ]
        held = np.array(ledger.held, dtype=np.int64)
        self._elastic: list[int] = elastic_state(subgroups, gangs.count, held).tolist()
        self._next: dict[int, Attempt] = {}
        self._trees: dict[int, GangTree] = {}

    def next(self, gang: int) -> Attempt:
        """The pods the gang asks for now; none where it has nothing to add."""
        found = self._next.get(gang)
        if found is None:
            found = self._next[gang] = self._make(gang)
        return found

    def need(self, gang: int) -> Amounts:
        """What the gang's queue would be charged for its next attempt."""
        return self.next(gang).need

    def leaves(self, gang: int) -> list[int]:
        """Rows of SubGroups that hold the gang's pods."""
        root = self._root[gang]
        return [s for s in range(root, root + self._size[gang]) if self._is_leaf[s]]

    def waiting(self, gang: int) -> bool:
        """Whether pods of the gang are still without a place."""
        root = self._root[gang]
        return any(self._ledger.waiting[root : root + self._size[gang]])

    def elastic(self, gang: int) -> int:
        """The gang's elastic state, see gang_state: below its minimum, at it, above it."""
        return self._elastic[gang]

    def moved(self, gang: int) -> None:
        """The gang took a step: its next attempt and its elastic state are other ones."""
        self._next.pop(gang, None)
        held, minimum = self._ledger.held, self._minimum
        spare = [held[s] - minimum[s] for s in self.leaves(gang)]
        self._elastic[gang] = 0 if min(spare) < 0 else 2 if max(spare) > 0 else 1

    def unmet(self, leaf: int) -> bool:
        """Whether a leaf counts on releasing room to reach its minimum."""
        firm = self._ledger.firm[leaf]
        return self._ledger.held[leaf] > firm and firm < self._minimum[leaf]

    def _make(self, gang: int) -> Attempt:
        ledger = self._ledger
        picks = self._one_leaf(gang) if self._size[gang] == 2 else self._tree(gang)
        if len(picks) == 1:
            leaf, pods = picks[0]
            runs = tuple(
                (leaf, run) for run in self._pending.next(leaf, ledger.waiting[leaf], pods)
            )
        else:
            runs = tuple(
                (leaf, run)
                for leaf, pods in picks
                for run in self._pending.next(leaf, ledger.waiting[leaf], pods)
            )
        if not runs:
            return _NO_PODS
        total, cpu, memory, gpu = 0, 0.0, 0.0, 0.0
        for _, (_, pods, klass, _) in runs:
            a, b, c = self._charge[klass]
            total, cpu, memory, gpu = (
                total + pods,
                cpu + a * pods,
                memory + b * pods,
                gpu + c * pods,
            )
        return Attempt(runs, total, (cpu, memory, gpu))

    def _one_leaf(self, gang: int) -> list[tuple[int, int]]:
        """The common case, a root with one leaf, without walking a tree."""
        root = self._root[gang]
        if self._minimum[root] != 1:
            return self._tree(gang)
        leaf = root + 1
        missing = self._minimum[leaf] - self._ledger.held[leaf]
        waiting = self._ledger.waiting[leaf]
        pods = missing if missing > 0 else 1
        return [(leaf, pods)] if pods <= waiting else []

    def _tree(self, gang: int) -> list[tuple[int, int]]:
        root, size = self._root[gang], self._size[gang]
        tree = self._trees.get(gang)
        if tree is None:
            tree = self._trees[gang] = gang_tree(self._subgroups, root, size)
        rows = slice(root, root + size)
        picks = tasks_to_allocate(tree, self._ledger.held[rows], self._ledger.waiting[rows])
        return [(root + local, pods) for local, pods in picks if pods > 0]

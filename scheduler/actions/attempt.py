"""What the next attempt of each gang consists of: which pods, which classes, what charge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..gang_state import ABOVE_MINIMUM, AT_MINIMUM, BELOW_MINIMUM, elastic_state
from ..gpu.prices import against_limits
from ..ledger import Ledger
from ..orders.subgroup_order import Standing, gang_tree, tasks_to_allocate
from ..pending import Pending, Run
from ..shares.row import NOTHING, Amounts


class Attempt(NamedTuple):
    """Pods that are placed together or not at all."""

    runs: tuple[tuple[int, Run], ...]  # (leaf, run of equal pods), in the order of placement
    pods: int
    need: Amounts  # charged to the queue: millicores, bytes, GPUs
    gate: Amounts  # the same as limits and quotas count it: GPU memory by the largest card


_AT_OR_ABOVE = (AT_MINIMUM, ABOVE_MINIMUM)
_NO_PODS = Attempt((), 0, NOTHING, NOTHING)


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
        self._gate: list[float] = against_limits(snapshot).tolist()
        held = np.array(ledger.held, dtype=np.int64)
        self._elastic: list[int] = elastic_state(subgroups, gangs.count, held).tolist()
        self._next: dict[int, Attempt] = {}
        self._standings: dict[int, Standing] = {}
        self._spare: dict[int, list[int]] = {}  # leaves below their minimum, leaves above it

    def next(self, gang: int) -> Attempt:
        """The pods the gang asks for now; none where it has nothing to add."""
        found = self._next.get(gang)
        if found is None:
            found = self._next[gang] = self._make(gang)
        return found

    def need(self, gang: int) -> Amounts:
        """What the gang's queue would be charged for its next attempt."""
        return self.next(gang).need

    def more(self, gang: int) -> bool:
        """Whether the gang has pods left to try."""
        standing = self._standings.get(gang)
        if standing is not None:
            return standing.yields[0]
        return self._ledger.waiting[self._root[gang] + 1] > 0

    def elastic(self, gang: int) -> int:
        """The gang's elastic state, see gang_state: below its minimum, at it, above it."""
        return self._elastic[gang]

    def moved(self, gang: int) -> None:
        """The gang took its step: its next attempt and its elastic state are other ones."""
        step = self._next.pop(gang)
        held, minimum, root = self._ledger.held, self._minimum, self._root[gang]
        standing = self._standings.get(gang)
        if standing is None:
            spare = held[root + 1] - minimum[root + 1]
            self._elastic[gang] = BELOW_MINIMUM if spare < 0 else _AT_OR_ABOVE[spare > 0]
            return
        for leaf, run in step.runs:
            standing.place(leaf - root, run[1])
        below, above = self._count_spare(gang, step)
        self._elastic[gang] = BELOW_MINIMUM if below else _AT_OR_ABOVE[above > 0]

    def _count_spare(self, gang: int, step: Attempt) -> list[int]:
        """How many leaves are below and above their minimum after a step of the gang."""
        held, minimum, root = self._ledger.held, self._minimum, self._root[gang]
        found = self._spare.get(gang)
        if found is None:
            leaves = [s for s in range(root, root + self._size[gang]) if self._is_leaf[s]]
            below = sum(held[leaf] < minimum[leaf] for leaf in leaves)
            found = self._spare[gang] = [below, sum(held[leaf] > minimum[leaf] for leaf in leaves)]
            return found
        pods: dict[int, int] = {}
        for leaf, run in step.runs:
            pods[leaf] = pods.get(leaf, 0) + run[1]
        for leaf, count in pods.items():
            after, least = held[leaf], minimum[leaf]
            found[0] += (after < least) - (after - count < least)
            found[1] += (after > least) - (after - count > least)
        return found

    def picks(self, gang: int) -> list[tuple[int, int]]:
        """(leaf, pods) that the gang would ask for as the ledger stands, nothing remembered."""
        root, size = self._root[gang], self._size[gang]
        if size == 2 and self._minimum[root] == 1:
            return self._one_leaf(gang)
        rows = slice(root, root + size)
        tree = gang_tree(self._subgroups, root, size)
        standing = Standing(tree, self._ledger.held[rows], self._ledger.waiting[rows])
        return [(root + local, pods) for local, pods in tasks_to_allocate(standing)]

    def attempt(self, runs: tuple[tuple[int, Run], ...]) -> Attempt:
        """Runs of pods as an attempt, with what the queue is charged for them."""
        pods, cpu, memory, gpu, gate = 0, 0.0, 0.0, 0.0, 0.0
        for _, (_, count, klass, _) in runs:
            a, b, c = self._charge[klass]
            pods, cpu = pods + count, cpu + a * count
            memory, gpu = memory + b * count, gpu + c * count
            gate += self._gate[klass] * count
        if not runs:
            return _NO_PODS
        return Attempt(runs, pods, (cpu, memory, gpu), (cpu, memory, gate))

    def forget(self, gang: int) -> None:
        """The gang lost pods: its next attempt and its elastic state are found anew."""
        for kept in (self._next, self._standings, self._spare):
            kept.pop(gang, None)
        held, minimum, root = self._ledger.held, self._minimum, self._root[gang]
        leaves = [row for row in range(root, root + self._size[gang]) if self._is_leaf[row]]
        spare = [held[row] - minimum[row] for row in leaves]
        self._elastic[gang] = BELOW_MINIMUM if min(spare) < 0 else _AT_OR_ABOVE[max(spare) > 0]

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
        return self.attempt(runs)

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
        standing = self._standings.get(gang)
        if standing is None:
            rows = slice(root, root + size)
            tree = gang_tree(self._subgroups, root, size)
            standing = Standing(tree, self._ledger.held[rows], self._ledger.waiting[rows])
            self._standings[gang] = standing
        return [(root + local, pods) for local, pods in tasks_to_allocate(standing)]

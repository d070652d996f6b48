"""PodGroups as gang rows with their subgroup trees, in columns."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kai_ray.cluster.port import Key
from kai_ray.scheduler.snapshot import Bools, Gangs, SubGroups

from .groups import GroupRow, TreeRow
from .settings import EncodeConfig
from .symbols import Symbols
from .table import Table
from .topologies import Bond, TopologyTable
from .traits import Traits

#: A leaf of a gang, known by namespace, group and subgroup whether or not the group exists yet.
LeafKey = tuple[str, str, str]
_COLUMNS = (
    ("queue", "i"),
    ("priority_class", "i"),
    ("preemptible", "b"),
    ("created_s", "d"),
    ("last_start_s", "d"),
    ("held", "b"),
    ("start", "i"),
    ("rows", "i"),
    ("traits", "i"),
)


@dataclass(frozen=True, slots=True)
class GangArrays:
    gangs: Gangs
    subgroups: SubGroups
    keys: list[Key]  # row -> PodGroup
    leaf_symbols: NDArray[np.int32]  # of the rows that are leaves
    held: Bools  # [G] nothing more may start
    class_symbols: NDArray[np.int32]  # [G] of GangTable.classes
    trait_symbols: NDArray[np.int32]  # [G] of GangTable.traits
    explicit: NDArray[np.int8]  # [G] preemptible 1, not 0, or not said -1

    def leaf_row(self, symbols: int) -> NDArray[np.int32]:
        """[symbols + 1] row of SubGroups per leaf symbol, -1 for none; the last serves -1."""
        table = np.full(symbols + 1, -1, dtype=np.int32)
        table[self.leaf_symbols] = np.flatnonzero(self.subgroups.leaf)
        return table


class GangTable:
    def __init__(self) -> None:
        self.leaves: Symbols[LeafKey] = Symbols()
        self.queues: Symbols[str] = Symbols()
        self.classes: Symbols[str] = Symbols()
        self.traits: Symbols[Traits] = Symbols()
        self.bonds: Symbols[Bond] = Symbols()
        self.version = 0
        self._table: Table[tuple[str, str]] = Table(_COLUMNS)
        self._trees: dict[tuple[str, str], tuple[TreeRow, ...]] = {}
        self._parent, self._minimum, self._rank, self._symbol = (array("i") for _ in range(4))
        self._bond, self._asked = array("i"), array("i")
        self._leaf = array("b")
        self._blocks: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, key: Key) -> bool:
        return (key.name, key.namespace) in self._table.slot_of

    def tree(self, key: Key) -> tuple[TreeRow, ...]:
        return self._trees[key.name, key.namespace]

    def put(self, key: Key, row: GroupRow, held: bool) -> None:
        slot = (key.name, key.namespace)
        before = self._table.get(slot)
        queue = self.queues.acquire(row.queue)
        priority_class = self.classes.acquire(row.priority_class)
        traits = self.traits.acquire(row.traits)
        if before is not None and self._trees[slot] == row.tree:
            start, rows = int(before[6]), int(before[7])
        else:
            if before is not None:
                self._free(int(before[6]), int(before[7]))
            start, rows = self._store(key, row.tree), len(row.tree)
            self._trees[slot] = row.tree
            self.version += 1
        new = (
            queue,
            priority_class,
            row.preemptible,
            row.created_s,
            row.last_start_s,
            int(held),
            start,
            rows,
            traits,
        )
        self._table.put(slot, new)
        if before is not None:
            self._release(before)
        if before != new:
            self.version += 1

    def remove(self, key: Key) -> None:
        slot = (key.name, key.namespace)
        before = self._table.remove(slot)
        if before is None:
            return
        self._release(before)
        self._free(int(before[6]), int(before[7]))
        del self._trees[slot]
        self.version += 1

    def users(self, symbols: NDArray[np.int32]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """The users of gangs by their trait symbols: a code for each, and the names by code."""
        names = sorted({traits.user for traits in self.traits})
        code = {name: i for i, name in enumerate(names)}
        table = np.zeros(len(self.traits) + 1, dtype=np.int32)
        for traits, symbol in self.traits.ids.items():
            table[symbol] = code[traits.user]
        return table[symbols], tuple(names)

    def _release(self, row: tuple[float, ...]) -> None:
        self.queues.release(int(row[0]))
        self.classes.release(int(row[1]))
        self.traits.release(int(row[8]))

    def _store(self, key: Key, tree: tuple[TreeRow, ...]) -> int:
        count = len(tree)
        free = self._blocks.get(count)
        columns = (
            self._parent,
            self._leaf,
            self._minimum,
            self._rank,
            self._symbol,
            self._bond,
            self._asked,
        )
        if free:
            start = free.pop()
        else:
            start = len(self._leaf)
            for column in columns:
                column.extend([0] * count)
        if count == 2:
            rank = (0, 1)
        else:
            by_name = sorted(range(count), key=lambda i: tree[i].name)
            rank = [0] * count
            for position, i in enumerate(by_name):
                rank[i] = position
        for i, row in enumerate(tree):
            at = start + i
            self._parent[at] = row.parent
            self._leaf[at] = row.leaf
            self._minimum[at] = row.minimum
            self._rank[at] = rank[i]
            self._asked[at] = row.asked
            self._bond[at] = self.bonds.acquire(row.bond) if row.bond else -1
            self._symbol[at] = (
                self.leaves.acquire((key.namespace, key.name, row.name)) if row.leaf else -1
            )
        return start

    def _free(self, start: int, count: int) -> None:
        for at in range(start, start + count):
            self.leaves.release(self._symbol[at])
            self.bonds.release(self._bond[at])
        self._blocks.setdefault(count, []).append(start)

    def build(
        self,
        queue_row: dict[str, int],
        priorities: dict[str, int],
        config: EncodeConfig,
        topologies: TopologyTable,
    ) -> GangArrays:
        """All gangs by name; `priorities` has the value of the global default under ""."""
        keys = [Key(namespace, name) for name, namespace in self._table.order()]
        count = len(keys)
        column = self._table.column
        start, rows = column("start").astype(np.int64), column("rows").astype(np.int64)
        root = np.cumsum(rows) - rows
        gang = np.repeat(np.arange(count, dtype=np.int32), rows)
        picked = np.arange(int(rows.sum()), dtype=np.int64) + np.repeat(start - root, rows)
        parent = _take(self._parent, picked)
        parent = np.where(parent < 0, -1, parent + root[gang]).astype(np.int32)
        leaf = _take(self._leaf, picked).astype(np.bool_)
        symbol = _take(self._symbol, picked)
        fallback = priorities.get("", config.default_priority)
        value = np.full(len(self.classes) + 1, fallback, dtype=np.int32)
        for name, s in self.classes.ids.items():
            value[s] = priorities.get(name, fallback)
        priority = value[column("priority_class")]
        explicit = column("preemptible")
        last = column("last_start_s")
        gangs = Gangs(
            queue=self.queues.rows(queue_row)[column("queue")],
            priority=priority,
            preemptible=np.where(
                explicit < 0, priority < config.non_preemptible_from, explicit == 1
            ),
            created_s=column("created_s").astype(np.float64),
            rank=np.arange(count, dtype=np.int32),
            root=root.astype(np.int32),
            started=np.isfinite(last),
            last_start_s=np.where(np.isfinite(last), last, np.nan),
        )
        subgroups = SubGroups(
            gang=gang,
            parent=parent,
            leaf=leaf,
            minimum=_take(self._minimum, picked),
            rank=_take(self._rank, picked),
        )
        if self.bonds.ids:
            bond = _take(self._bond, picked)
            named = ((symbol, one) for one, symbol in self.bonds.ids.items())
            topology, required, preferred = topologies.columns(named, len(self.bonds))[:, bond]
            subgroups = replace(
                subgroups,
                topology=topology,
                required_level=required,
                preferred_level=preferred,
            )
        asked = _take(self._asked, picked)
        if (asked >= 0).any():
            subgroups = replace(subgroups, asked=asked)
        return GangArrays(
            gangs,
            subgroups,
            keys,
            symbol[leaf],
            column("held") != 0,
            column("priority_class").astype(np.int32),
            column("traits").astype(np.int32),
            explicit.astype(np.int8),
        )


def _take(column: array, picked: NDArray[np.int64]) -> NDArray[np.int32]:
    if not len(column):
        return np.empty(0, dtype=np.int32)
    dtype = np.int8 if column.typecode == "b" else np.int32
    return np.frombuffer(column, dtype=dtype)[picked].astype(np.int32)

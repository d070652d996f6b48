"""A snapshot together with the names of its rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kai_ray.cluster.port import Key, Object
from kai_ray.scheduler.snapshot import Bools, Bytes, Codes, Ints, Snapshot

from .dra.rows import Devices
from .problems import Problem
from .queue_policy import QueuePolicy
from .shape import Shape
from .topologies import TopologyTable
from .zone_rows import ZoneRow


class Orphan(NamedTuple):
    """One of our pods that waits outside any gang: its PodGroup or subgroup does not exist."""

    pod: Key
    group: str
    subgroup: str
    group_exists: bool


@dataclass(frozen=True, slots=True)
class Names:
    """Rows back to objects. `pod(row)` and `gang(row)` answer for the snapshot they came with."""

    nodes: list[str]
    queues: list[str]
    gangs: list[Key]
    pod_order: list[Key]
    pod_index: NDArray[np.int64]  # task row -> position in pod_order
    pod_objects: Mapping[Key, Object]
    leaf_names: Mapping[Key, tuple[str, ...]]  # gang -> name of each row of its tree
    topologies: TopologyTable = field(default_factory=TopologyTable)
    zones: dict[str, ZoneRow | None] = field(default_factory=dict[str, ZoneRow | None])  # by node
    groups: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    """Node row -> name of the group that shares each device, by slot."""

    def pod(self, row: int) -> Key:
        return self.pod_order[self.pod_index[row]]

    def row_of(self, pod: Key) -> int:
        """The task row of a pod, -1 for none."""
        position = bisect_left(self.pod_order, pod)
        if position == len(self.pod_order) or self.pod_order[position] != pod:
            return -1
        row = int(np.searchsorted(self.pod_index, position))
        found = row < len(self.pod_index) and self.pod_index[row] == position
        return row if found else -1

    def pod_object(self, row: int) -> Object | None:
        """The pod as it is known now; None if it has gone since."""
        return self.pod_objects.get(self.pod(row))

    def device_group(self, node: int, slot: int) -> str:
        """Who shares a device of a node; "" where nobody does yet."""
        known = self.groups.get(node, ())
        return known[slot] if slot < len(known) else ""

    def gang(self, row: int) -> Key:
        return self.gangs[row]

    def node(self, row: int) -> str:
        return self.nodes[row]

    def queue(self, row: int) -> str:
        return self.queues[row]


@dataclass(frozen=True, slots=True)
class Encoded:
    """What one cycle works on."""

    snapshot: Snapshot
    names: Names
    problems: tuple[Problem, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    shapes: tuple[Shape, ...] = ()  # per class
    held: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))  # [G]
    bare: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """[G] gangs with pods that nobody would make again."""
    user: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """[G] whose gang it is, of `users`; NOBODY where nobody is named."""
    users: tuple[str, ...] = ()
    devices: Devices | None = None  # what is known of devices that are claimed (dra/)
    policies: tuple[QueuePolicy, ...] = ()  # [Q] what holds for each queue, with what it inherits
    told: tuple[Ints, Bytes] = field(
        default_factory=lambda: (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int8))
    )
    """Task rows of pods that were told to leave by a deadline, and where they stand until then: for
    the core their places are about to be free, for users they run."""

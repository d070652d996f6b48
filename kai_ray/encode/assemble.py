"""Tables to arrays: each part is built again only if what it is made of has changed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kai_ray.cluster.port import Key, Object
from kai_ray.scheduler.snapshot import (
    GPU,
    QUEUE_RESOURCES,
    USED,
    Bools,
    Floats,
    Nodes,
    Snapshot,
    Tasks,
    TaskState,
)

from . import gpu_asks, gpu_table, queue_rules, queues, topologies, zone_table
from .class_table import ClassArrays
from .dra.rows import with_devices
from .encoded import Encoded, Names, Orphan
from .eviction_rows import with_evictions
from .gang_table import GangArrays
from .groups import DEFAULT_LEAF
from .node_rows import NodeCodes
from .problems import Problem
from .shape import Shape

if TYPE_CHECKING:
    from .encoder import Encoder

_USED = np.zeros(16, dtype=np.bool_)
_USED[list(USED)] = True


@dataclass(frozen=True, slots=True)
class _TaskArrays:
    tasks: Tasks
    index: NDArray[np.int64]  # task row -> position in the order of pods
    stuck_s: Floats
    total: Floats
    orphans: tuple[Orphan, ...]


class Assembly:
    """Holds the parts of the last snapshot."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._version: tuple[int, ...] | None = None
        self._keys: tuple[object, ...] = ()
        self._codes: NodeCodes | None = None
        self._class_version: tuple[object, ...] = ()
        self._classes: ClassArrays | None = None
        self._tree: queues.QueueTree | None = None
        self._tree_rows: dict[str, queues.QueueRow] = {}
        self._topology_version: tuple[object, ...] = ()
        self._topologies = topologies.TopologyTable()
        self._gang_version: tuple[object, ...] = ()
        self._gangs: GangArrays | None = None
        self._tasks: _TaskArrays | None = None
        self._rule_version: tuple[object, ...] = ()
        self._found_keys: set[str] = set()
        self._fixed: Encoded | None = None

    def take(self, now_s: float) -> Encoded:
        version = self._encoder.version
        if version != self._version or self._fixed is None:
            self._fixed = self._build()
            self._version = version
        return self._at(self._fixed, now_s)

    def _at(self, fixed: Encoded, now_s: float) -> Encoded:
        """Time enters: releasing pods that are overdue are stuck."""
        assert self._tasks is not None
        s = fixed.snapshot
        tasks = s.tasks
        overdue = self._tasks.stuck_s < now_s
        if overdue.any():
            state = tasks.state.copy()
            state[overdue] = TaskState.STUCK
            tasks = dataclasses.replace(tasks, state=state)
        return dataclasses.replace(fixed, snapshot=dataclasses.replace(s, now_s=now_s, tasks=tasks))

    def next_stuck_s(self, now_s: float) -> float:
        """When the next releasing pod becomes stuck; inf = never."""
        if self._tasks is None:
            return np.inf
        stuck = self._tasks.stuck_s
        return float(stuck[stuck >= now_s].min(initial=np.inf))

    def _build(self) -> Encoded:
        e = self._encoder
        if self._tree is None or self._tree_rows != e.queue_rows:
            self._tree = queues.build(e.queue_rows)
            self._tree_rows = dict(e.queue_rows)
            self._gang_version = ()
        resources = e.classes.resources(e.nodes)
        keys, peer_keys = e.classes.keys_in_use()
        keys = sorted({*keys, *self._rule_keys(self._tree)})
        wanted = (e.nodes.version, tuple(keys), tuple(peer_keys), tuple(resources))
        if wanted != self._keys or self._codes is None:
            self._codes = NodeCodes(e.nodes, keys, peer_keys, resources)
            self._keys = wanted
        class_version = (wanted, e.classes.version)
        if class_version != self._class_version or self._classes is None:
            self._classes = e.classes.build(self._codes, resources)
            self._class_version = class_version
        topology_version = (e.nodes.version, tuple(sorted(e.topologies.items())))
        if topology_version != self._topology_version:
            self._topologies = topologies.build(e.topologies, e.nodes)
            self._topology_version = topology_version
        gang_version = (
            e.gangs.version,
            tuple(sorted(e.priorities.items())),
            topology_version[1],
        )
        if gang_version != self._gang_version or self._gangs is None:
            table = self._topologies
            self._gangs = e.gangs.build(self._tree.row_of, e.priorities, e.config, table)
            self._gang_version = gang_version
        nodes, classes, gangs, tree = self._codes.nodes, self._classes, self._gangs, self._tree
        self._tasks = self._build_tasks(nodes, classes, gangs)
        names = Names(
            nodes=e.nodes.names,
            queues=tree.names,
            gangs=gangs.keys,
            pod_order=e.pods.table.order()[:],
            pod_index=self._tasks.index,
            pod_objects=e.pods.objects,
            leaf_names=_LeafNames(e),
            topologies=self._topologies,
        )
        devices = gpu_table.build(
            e.nodes.ordered(),
            classes.shapes,
            self._tasks.tasks,
            nodes.ready & ~nodes.cordoned,
            lambda row: (names.pod(row), names.pod_object(row)),
            e.device_grants(),
        )
        names.groups.update(devices.groups)
        snapshot = Snapshot(
            now_s=0.0,
            seed=e.config.seed,
            resources=tuple(resources),
            nodes=nodes,
            queues=tree.queues,
            gangs=gangs.gangs,
            subgroups=gangs.subgroups,
            tasks=self._tasks.tasks,
            classes=classes.classes,
            peers=classes.peers,
            port_conflicts=classes.port_conflicts,
            topologies=self._topologies.arrays,
            gpus=devices.gpus,
            total=self._tasks.total,
        )
        problems: list[Problem] = [*sorted(e.problems.values()), *tree.problems]
        encoded = Encoded(
            snapshot,
            names,
            tuple(problems),
            self._tasks.orphans,
            tuple(classes.shapes),
            gangs.held,
            self._bare(gangs),
            *e.gangs.users(gangs.trait_symbols),
        )
        encoded = with_evictions(encoded, e.evictions, e.budgets)
        return self._ruled(encoded, gangs, tree)

    def _rule_keys(self, tree: queues.QueueTree) -> set[str]:
        """Node labels that rules of queues look at; looked up again when nodes or queues change."""
        version = (self._encoder.nodes.version, tuple(tree.policies))
        if version != self._rule_version:
            self._rule_version = version
            self._found_keys = queue_rules.node_keys(tree.policies, self._encoder.nodes)
        return self._found_keys

    def _ruled(self, encoded: Encoded, gangs: GangArrays, tree: queues.QueueTree) -> Encoded:
        """The same with the rules of queues and with what was used so far."""
        e, snapshot = self._encoder, encoded.snapshot
        assert self._codes is not None
        gangs = dataclasses.replace(gangs, gangs=snapshot.gangs)
        ruled = queue_rules.govern(
            gangs,
            e.gangs,
            tree.policies,
            tree.names,
            e.priorities,
            e.config,
            e.usage,
            encoded.bare,
        )
        snapshot = dataclasses.replace(
            snapshot, gangs=ruled, queues=queue_rules.queues(snapshot.queues, tree, e.usage)
        )
        snapshot, shapes = queue_rules.split_classes(
            snapshot, encoded.shapes, gangs, e.gangs, tree.policies, self._codes
        )
        snapshot, shapes, devices = with_devices(
            e.devices, e.nodes, snapshot, shapes, encoded.names, e.config.reservation_namespace
        )
        snapshot = self._zoned(snapshot, shapes, encoded.names)
        return dataclasses.replace(
            encoded,
            snapshot=snapshot,
            shapes=shapes,
            devices=devices,
            policies=tuple(tree.policies),
        )

    def _zoned(self, snapshot: Snapshot, shapes: tuple[Shape, ...], names: Names) -> Snapshot:
        """The same with the zones inside nodes, if anybody tells of any or asks for them."""
        told = {name: self._encoder.zones_of(name) for name in names.nodes}
        assumed = self._encoder.assumed_zones

        def pod_at(row: int) -> tuple[Key, Object | None]:
            key = names.pod(row)
            notes = assumed.get(key)
            return key, {"metadata": {"annotations": notes}} if notes else names.pod_object(row)

        zones, links = zone_table.build(
            list(told.values()),
            shapes,
            snapshot.tasks,
            snapshot.resources,
            pod_at,
            self._encoder.zone_rules,
        )
        if zones is None and links is None:
            return snapshot
        names.zones.update(told)
        return dataclasses.replace(snapshot, zones=zones, links=links)

    def _bare(self, gangs: GangArrays) -> Bools:
        """[G] gangs with a pod of nobody's."""
        assert self._tasks is not None
        bare = self._encoder.pods.table.column("bare")[self._tasks.index] != 0
        gang = self._tasks.tasks.gang
        found = np.zeros(gangs.gangs.count, dtype=np.bool_)
        found[gang[bare & (gang >= 0)]] = True
        return found

    def _build_tasks(self, nodes: Nodes, classes: ClassArrays, gangs: GangArrays) -> _TaskArrays:
        e = self._encoder
        column = e.pods.table.column
        order = e.pods.table.order()
        symbol = column("leaf").astype(np.int64)  # -1 picks the last entry of the look-up
        leaf = gangs.leaf_row(len(e.gangs.leaves))[symbol]
        foreign = column("foreign") != 0
        state = column("state").astype(np.int8)
        node = e.pods.places.rows(e.nodes.row_of)[column("node")]
        in_gang = leaf >= 0
        used = _USED[state]
        keep = in_gang | (used & (node >= 0))
        lost = np.flatnonzero(~in_gang & ~foreign & ((state == 0) | (state == 1)))
        orphans = [*e.pods.unresolved(), *(self._orphan(order[i], symbol[i]) for i in lost)]
        index = np.flatnonzero(keep)
        gang = np.full(len(order), -1, dtype=np.int32)
        gang[in_gang] = gangs.subgroups.gang[leaf[in_gang]]
        stopped = column("held") != 0
        if gangs.held.any():
            stopped |= in_gang & gangs.held[gang]
        state[stopped & (state == TaskState.PENDING)] = TaskState.GATED
        klass = classes.row_of[column("klass")]
        tasks = Tasks(
            gang=gang[index],
            leaf=leaf[index],
            klass=klass[index],
            state=state[index],
            node=node[index],
            role=column("role").astype(np.int8)[index],
            task_priority=column("task_priority").astype(np.int64)[index],
            created_s=column("created_s").astype(np.float64)[index],
            rank=np.arange(len(index), dtype=np.int32),
            nominated=e.pods.places.rows(e.nodes.row_of)[column("nominated")][index],
        )
        usable = nodes.ready & ~nodes.cordoned
        total = nodes.allocatable[:QUEUE_RESOURCES][:, usable].sum(axis=1).astype(np.float64)
        total[GPU] += sum(
            gpu_asks.slices(row.allocatable)
            for row, counts in zip(e.nodes.ordered(), usable.tolist(), strict=True)
            if counts
        )
        theirs = foreign & used & (node >= 0)
        theirs &= usable[node] if usable.size else False
        if theirs.any():
            total -= classes.classes.queue_request[:, klass[theirs]].sum(axis=1)
        return _TaskArrays(
            tasks,
            index,
            column("stuck_s").astype(np.float64)[index],
            np.maximum(total, 0.0),
            tuple(sorted(orphans)),
        )

    def _orphan(self, pod: Key, symbol: int) -> Orphan:
        namespace, group, subgroup = self._encoder.gangs.leaves.key(int(symbol))
        return Orphan(pod, group, subgroup, Key(namespace, group) in self._encoder.gangs)


class _LeafNames(dict[Key, tuple[str, ...]]):
    """Names of a gang's tree rows, looked up when somebody asks."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self._encoder = encoder

    def __missing__(self, key: Key) -> tuple[str, ...]:
        return tuple(row.name or DEFAULT_LEAF for row in self._encoder.gangs.tree(key))

"""Every node as a row with a square per GPU, kept up to date by what has changed.

As with jobs, the handlers only note which nodes have changed. Which card a pod has is known where
the node's agent says so, or where pods share a card; else pods fill the squares in their order.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.informer import Informer
from kai_ray.cluster.port import Key, Object, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.served import device_kinds
from kai_ray.console.job_board import drained
from kai_ray.encode import bad_devices, zone_rows
from kai_ray.encode.problems import Malformed
from kai_ray.gpu.node_use import DeviceUse, NodeUse
from kai_ray.gpu.use import GpuUse
from kai_ray.sight import claimed, node_list
from kai_ray.sight.jobs import pods as P

SHARED, BAD, MIG = 1, 2, 4
#: Squares of one node at most.
MOST_CARDS = 128
HOSTNAME = "kubernetes.io/hostname"
#: Labels that name a node's rack, or what is next to it, where no Topology says which does.
RACKS = (
    "topology.kubernetes.io/rack",
    "cloud.provider.com/topology-rack",
    "cloud.google.com/gce-topology-host",
    "topology.k8s.aws/network-node-layer-3",
    "nvidia.com/gpu.clique",
)


class Part(NamedTuple):
    """What one pod has of a card: the pod, and which part of 1."""

    pod: Key
    gang: Key | None
    used: float


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU. Nobody has it where there are no parts."""

    parts: tuple[Part, ...]
    flags: int
    utilization: float | None

    @property
    def used(self) -> float:
        return min(1.0, sum(part.used for part in self.parts))


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node, its cards, and which of them belong together."""

    node: node_list.Node
    pool: str
    rack: str
    cards: tuple[Card, ...]
    domains: tuple[tuple[int, ...], ...]
    memory_mib: int
    use: NodeUse | None


class NodeBoard:
    """`attach` once, then `rows`. Safe from any thread."""

    def __init__(self, use: GpuUse) -> None:
        self.version = 0
        self.use = use
        self._lock = threading.RLock()
        self._rows: dict[str, NodeRow] = {}
        self._pods: dict[str, set[Key]] = {}  # node -> pods
        self._changed: set[str] = set()
        self._all_changed = False
        self._claims: tuple[Informer, Informer] | None = None
        self._claimed = claimed.NONE
        self._claims_changed = False
        self._list: tuple[int, list[NodeRow]] = (-1, [])

    def attach(self, runtime: Runtime) -> None:
        """Follows the caches of a runtime."""
        self._nodes, self._all_pods = runtime.informer(R.NODE), runtime.informer(R.POD)
        self._topologies = runtime.informer(R.TOPOLOGY)
        kinds = device_kinds(runtime.port)
        if kinds:
            self._claims = (runtime.informer(kinds[1]), runtime.informer(kinds[3]))
            for informer in self._claims:
                informer.on_change(self._claim_changed)
        self._topologies.on_change(self._everything_changed)
        self._nodes.on_change(self._node_changed)
        self._all_pods.on_change(self._pod_changed)
        runtime.informer(R.GPU_NODE_STATE).on_change(self._node_changed)

    def _everything_changed(self, old: Object | None, new: Object | None) -> None:
        self._all_changed = True
        self.version += 1

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        self._claims_changed = self._all_changed = True
        self.version += 1

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        self._changed.add((new or old or {})["metadata"]["name"])
        self.version += 1

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        for pod in (old, new):
            if pod is not None and (node := P.node(pod)):
                self._pods.setdefault(node, set()).add(key_of(pod))
                self._changed.add(node)
                self.version += 1

    # ------------------------------------------------------------------ in a reader's thread

    def rows(self) -> list[NodeRow]:
        """Every node, node-2 before node-10; shared, not to be changed."""
        with self._lock:
            version = self.version
            if self._list[0] != version:
                self._refresh()
                rows = sorted(self._rows.values(), key=lambda r: node_list.natural(r.node.name))
                self._list = (version, rows)
            return self._list[1]

    def find(self, name: str) -> NodeRow | None:
        with self._lock:
            self.rows()
            return self._rows.get(name)

    def pods(self, name: str) -> list[Object]:
        """The live pods that are bound to a node, by namespace and name."""
        found: list[Object] = []
        keys = self._pods.get(name, set())
        for key in sorted(set(keys)):
            pod = self._all_pods.get(key.name, key.namespace)
            if pod is None or P.node(pod) != name:
                keys.discard(key)
                pod = self._all_pods.get(key.name, key.namespace)
                if pod is None or P.node(pod) != name:
                    continue
                keys.add(key)  # one of that name has come meanwhile
            if not P.finished(pod):
                found.append(pod)
        return found

    def gpus(self, pod: Object) -> float:
        return P.gpus(pod) + self._claimed.of(pod)

    def _refresh(self) -> None:
        if self._claims_changed and self._claims is not None:
            self._claims_changed = False
            self._claimed = claimed.build(self._claims[0], self._claims[1])
        changed = drained(self._changed)
        if self._all_changed:
            self._all_changed = False
            changed |= {node["metadata"]["name"] for node in self._nodes}
        rack_of = partial(_rack, levels=_levels(self._topologies))
        for name in changed:
            obj = self._nodes.get(name)
            if obj is None:
                self._rows.pop(name, None)
                continue
            pods = self.pods(name)
            row = node_list.node(obj, pods, self._claimed)
            use = self.use.nodes.get(name)
            self._rows[name] = NodeRow(
                node=row,
                pool=_pool(obj),
                rack=rack_of(obj),
                cards=_cards(row, pods, use, self._claimed),
                domains=_domains(obj, use),
                memory_mib=_card_memory(obj, use),
                use=use,
            )


def _pool(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    return next((str(labels[key]) for key in L.NODE_POOL_NAMES if labels.get(key)), "")


def _levels(topologies: Informer) -> tuple[str, ...]:
    """Node labels of the narrowest domains above the node: of Topologies by name, then known."""
    found: list[str] = []
    for topology in sorted(topologies, key=lambda t: t["metadata"]["name"]):
        levels = (topology.get("spec") or {}).get("levels") or ()
        names = [str(level.get("nodeLabel") or "") for level in levels]
        above = [name for name in names if name and name != HOSTNAME]
        found += above[-1:]
    return (*found, *RACKS)


def _rack(node: Object, levels: tuple[str, ...]) -> str:
    labels = node["metadata"].get("labels") or {}
    return next((str(labels[level]) for level in levels if labels.get(level)), "")


def _card_memory(node: Object, use: NodeUse | None) -> int:
    for device in use.devices if use else ():
        if device.memory_mib:
            return device.memory_mib
    stated = (node["metadata"].get("labels") or {}).get(L.GPU_CARD_MEMORY) or ""
    return int(stated) if str(stated).isdecimal() and len(str(stated)) < 10 else 0


# ---------------------------------------------------------------------- cards


def _cards(
    row: node_list.Node, pods: list[Object], use: NodeUse | None, held: claimed.Claimed
) -> tuple[Card, ...]:
    devices = sorted(use.devices, key=lambda d: d.index) if use else []
    count = min(MOST_CARDS, max(int(row.gpus), len(devices)))
    parts: list[list[Part]] = [[] for _ in range(count)]
    flags = [0] * count
    for device in devices[:count]:
        at = device.index if device.index < count else -1
        flags[at] |= (MIG if device.mig else 0) | (0 if device.healthy else BAD)
    known = {d.uuid: d.index for d in devices} | {str(d.index): d.index for d in devices}
    homes: dict[str, int] = {}  # group that shares a card -> the card
    later: list[tuple[Part, int]] = []
    for pod in pods:
        later += _settle(pod, held, devices, parts, flags, homes)
    free = [at for at in range(count) if not parts[at]]
    for part, cards in later:
        for _ in range(cards):
            if free:
                parts[free.pop(0)].append(part)
    for name in _bad(row):
        at = known.get(name, homes.get(name, int(name) if name.isdecimal() else -1))
        if 0 <= at < count:
            flags[at] |= BAD
    use_of = {d.index: d.utilization for d in devices}
    return tuple(Card(tuple(parts[at]), flags[at], use_of.get(at)) for at in range(count))


def _settle(
    pod: Object,
    held: claimed.Claimed,
    devices: list[DeviceUse],
    parts: list[list[Part]],
    flags: list[int],
    homes: dict[str, int],
) -> list[tuple[Part, int]]:
    """Puts a pod on its cards where they are known; else how many it has somewhere."""
    name = P.gang_name(pod)
    key = key_of(pod)
    gang = Key(key.namespace, name) if name else None
    uid = pod["metadata"].get("uid") or ""
    mine = [d.index for d in devices if d.pods and uid in d.pods and d.index < len(parts)]
    shares = P.shares(pod)
    if shares:
        for number, (group, used) in enumerate(shares.items()):
            at = homes.get(group)
            if at is None:
                taken = {*homes.values()}
                empty = (n for n in range(len(parts)) if not parts[n] and n not in taken)
                at = mine[number] if number < len(mine) else next(empty, -1)
                homes[group] = at
            if at >= 0:
                parts[at].append(Part(key, gang, used))
                flags[at] |= SHARED
        return []
    count = round(P.gpus(pod) + held.of(pod))
    whole = Part(key, gang, 1.0)
    for at in mine[:count]:
        parts[at].append(whole)
    rest = count - len(mine[:count])
    return [(whole, rest)] if rest > 0 else []


def _bad(row: node_list.Node) -> list[str]:
    return [d.name for d in bad_devices.read(row.object["metadata"].get("annotations") or {})]


def _domains(node: Object, use: NodeUse | None) -> tuple[tuple[int, ...], ...]:
    """Cards that are linked, as the agent saw them; else those of one NUMA cell; else as stated."""
    devices = use.devices if use else ()
    if any(device.links for device in devices):
        return _linked(devices)
    cells: dict[int, list[int]] = {}
    for device in devices:
        if device.numa_node is not None:
            cells.setdefault(device.numa_node, []).append(device.index)
    if cells:
        return tuple(tuple(sorted(cells[cell])) for cell in sorted(cells))
    return _stated(node)


def _linked(devices: tuple[DeviceUse, ...]) -> tuple[tuple[int, ...], ...]:
    links = {device.index: {*device.links, device.index} for device in devices}
    found: list[tuple[int, ...]] = []
    seen: set[int] = set()
    for index in sorted(links):
        if index in seen:
            continue
        group, edge = {index}, [index]
        while edge:
            for other in links.get(edge.pop(), ()):
                if other in links and other not in group:
                    group.add(other)
                    edge.append(other)
        seen |= group
        found.append(tuple(sorted(group)))
    return tuple(found)


def _stated(node: Object) -> tuple[tuple[int, ...], ...]:
    """The annotation says how many GPUs are in each group, in their order."""
    notes = node["metadata"].get("annotations") or {}
    try:
        row = zone_rows.read_annotation(notes.get(L.NODE_ZONES) or "")
    except Malformed:
        return ()
    found: list[tuple[int, ...]] = []
    first = 0
    for zone in (row.links or row.zones) if row else ():
        count = min(MOST_CARDS, dict(zone.allocatable).get("gpu", 0))
        if count:
            found.append(tuple(range(first, first + count)))
            first += count
    return tuple(found)

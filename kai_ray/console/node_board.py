"""Every node as a row with a square per GPU, kept up to date by what has changed.

As with jobs, the handlers only note which nodes have changed.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.informer import Informer
from kai_ray.cluster.port import Key, Object, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.served import device_kinds
from kai_ray.console.cards import Card, cards_of, domains_of
from kai_ray.console.job_board import drained
from kai_ray.gpu.node_use import NodeUse
from kai_ray.gpu.use import GpuUse
from kai_ray.sight import claimed, node_list
from kai_ray.sight.jobs import pods as P

HOSTNAME = "kubernetes.io/hostname"
#: Labels that name a node's rack, or what is next to it, where no Topology says which does.
RACKS = (
    "topology.kubernetes.io/rack",
    "cloud.provider.com/topology-rack",
    "cloud.google.com/gce-topology-host",
    "topology.k8s.aws/network-node-layer-3",
    "nvidia.com/gpu.clique",
)


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
                cards=cards_of(row, pods, use, self._claimed),
                domains=domains_of(obj, use),
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

"""The devices of a cluster: where each can be used, and which requests it suits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kai_ray.encode.selectors import NODE_NAME, Need, NodeSelector, integer
from kai_ray.scheduler.snapshot import Bools

from .asks import Predicate
from .selectors import Selectors
from .slices import Device, DeviceId

#: A predicate and the selectors of its class.
FitKey = tuple[Predicate, tuple[str, ...]]


class NodeFacts(NamedTuple):
    name: str
    labels: Mapping[str, str]


class Supply:
    """Nodes are rows of the snapshot. A device of one node is *local*, any other *remote*."""

    def __init__(
        self,
        devices: Sequence[Device],
        nodes: Sequence[NodeFacts],
        classes: Mapping[str, tuple[str, ...]],
        selectors: Selectors,
        known: dict[FitKey, Bools],
    ) -> None:
        """`known` keeps what has been found about these devices, whatever nodes there are."""
        self.devices = devices
        self.row_of: dict[DeviceId, int] = {d.id: i for i, d in enumerate(devices)}
        self.nodes = nodes
        self._classes, self._selectors = classes, selectors
        place = {node.name: n for n, node in enumerate(nodes)}
        self.node: NDArray[np.int32] = np.array(
            [place.get(d.reach.node, -2) if d.reach.node else -1 for d in devices], dtype=np.int32
        )
        """[D] row of the device's node; -1 = remote, -2 = a node that is not ours."""
        self.remote: list[int] = np.flatnonzero(self.node == -1).tolist()
        self._reach: dict[NodeSelector | None, Bools] = {}
        self._fits = known
        self._local: dict[int, list[int]] = {}
        for d, n in enumerate(self.node.tolist()):
            if n >= 0:
                self._local.setdefault(n, []).append(d)

    def local(self, node: int) -> list[int]:
        """Devices of a node."""
        return self._local.get(node, [])

    def reach(self, selector: NodeSelector | None) -> Bools:
        """[N] nodes that a selector matches; None matches all."""
        found = self._reach.get(selector)
        if found is None:
            hits = [selector is None or matches(selector, node) for node in self.nodes]
            found = self._reach[selector] = np.array(hits, dtype=np.bool_)
        return found

    def reachable(self, device: int) -> Bools:
        """[N] nodes from where a device can be used."""
        if self.node[device] == -1:
            return self.reach(self.devices[device].reach.selector)
        found = np.zeros(len(self.nodes), dtype=np.bool_)
        if self.node[device] >= 0:
            found[self.node[device]] = True
        return found

    def fits(self, predicate: Predicate) -> Bools:
        """[D] devices that suit."""
        of_class = self._classes.get(predicate.device_class)
        if of_class is None:
            return np.zeros(len(self.devices), dtype=np.bool_)
        key = (predicate, of_class)
        found = self._fits.get(key)
        if found is None:
            tests = [self._selectors.of(s) for s in (*of_class, *predicate.selectors)]
            hits = [
                all(any(t.covers(taint) for t in predicate.tolerations) for taint in d.taints)
                and all(test.matches(d) for test in tests)
                for d in self.devices
            ]
            found = self._fits[key] = np.array(hits, dtype=np.bool_)
        return found

    def fault(self, predicate: Predicate) -> str:
        """Why a selector of the request cannot be used; "" where all can."""
        for source in (*self._classes.get(predicate.device_class, ()), *predicate.selectors):
            test = self._selectors.of(source)
            if test.fault:
                shown = source if len(source) <= 80 else source[:77] + "..."
                return f"the selector {shown!r} {test.fault}"
        return ""

    def per_node(self, chosen: Bools) -> NDArray[np.int64]:
        """[N] how many of the chosen devices [D] can be used on each node."""
        counts = np.zeros(len(self.nodes), dtype=np.int64)
        local = chosen & (self.node >= 0)
        np.add.at(counts, self.node[local], 1)
        for d in self.remote:
            if chosen[d]:
                counts += self.reachable(d)
        return counts


def matches(selector: NodeSelector, node: NodeFacts) -> bool:
    """Whether any term matches (Kubernetes NodeSelector)."""
    return any(all(_meets(need, node) for need in needs) for needs in selector)


def _meets(need: Need, node: NodeFacts) -> bool:
    have = node.name if need.key == NODE_NAME else node.labels.get(need.key)
    if need.op == "Exists":
        return have is not None
    if need.op == "DoesNotExist":
        return have is None
    if need.op == "In":
        return have in need.values
    if need.op == "NotIn":
        return have not in need.values
    number = integer(have) if have is not None else None
    bound = integer(need.values[0])
    if number is None or bound is None:
        return False
    return number > bound if need.op == "Gt" else number < bound

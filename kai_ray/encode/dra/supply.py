"""The devices of a cluster: where each can be used, and which requests it suits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kai_ray.encode.selectors import NODE_NAME, Need, NodeSelector, integer
from kai_ray.scheduler.snapshot import Bools

from .asks import Predicate
from .attributes import Name
from .selectors import Selector, Selectors
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
        tables = (t for d in devices for t in (d.attributes, d.capacity))
        self._names = sorted({name for table in tables for name in table})
        self._groups: dict[tuple[Name, ...], tuple[list[int], NDArray[np.int64]]] = {}
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
            found = self._tolerated(predicate)
            for source in (*of_class, *predicate.selectors):
                found = found & self._matched(self._selectors.of(source))
            self._fits[key] = found
        return found

    def _tolerated(self, predicate: Predicate) -> Bools:
        hits = [
            all(any(t.covers(taint) for t in predicate.tolerations) for taint in d.taints)
            for d in self.devices
        ]
        return np.array(hits, dtype=np.bool_)

    def _matched(self, test: Selector) -> Bools:
        """[D] devices that a selector matches; those that it cannot tell apart are asked once."""
        first, alike = self._alike(test.sees(self._names))
        return np.array([test.matches(self.devices[d]) for d in first], dtype=np.bool_)[alike]

    def _alike(self, names: tuple[Name, ...]) -> tuple[list[int], NDArray[np.int64]]:
        """Devices of one kind as far as driver and these names go: the first, and [D] whose."""
        found = self._groups.get(names)
        if found is None:
            number: dict[object, int] = {}
            first: list[int] = []
            alike = np.zeros(len(self.devices), dtype=np.int64)
            for d, device in enumerate(self.devices):
                seen = [repr((device.attributes.get(n), device.capacity.get(n))) for n in names]
                key = (device.id.driver, *seen)
                if key not in number:
                    number[key] = len(first)
                    first.append(d)
                alike[d] = number[key]
            found = self._groups[names] = first, alike
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

"""Task classes: distinct (shape, matching selectors), and their arrays against a node code book."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kai_ray.api.labels import GPU_RESOURCES
from kai_ray.cluster.port import Key
from kai_ray.scheduler.snapshot import (
    GPU,
    PODS,
    QUEUE_RESOURCES,
    Classes,
    ClassRules,
    Op,
    PeerTerm,
    Requirement,
    Selector,
    Spread,
    Term,
)

from . import gpu_asks, requests
from .node_rows import NodeCodes, NodeTable
from .peer_index import PeerIndex
from .peers import PeerTermByName
from .selectors import Labels, Needs, NodeSelector
from .shape import Port, Shape
from .symbols import Symbols

_OPS = {
    "In": Op.IN,
    "NotIn": Op.NOT_IN,
    "Exists": Op.EXISTS,
    "DoesNotExist": Op.DOES_NOT_EXIST,
    "Gt": Op.GT,
    "Lt": Op.LT,
}
_FIXED = ("cpu", "memory", "gpu", "pods")
_EVERYWHERE = ("0.0.0.0", "::", "")
ClassKey = tuple[int, frozenset[int]]


@dataclass(frozen=True, slots=True)
class ClassArrays:
    classes: Classes
    peers: tuple[PeerTerm, ...]
    port_conflicts: tuple[tuple[int, ...], ...]
    row_of: NDArray[np.int32]  # class symbol -> row; last entry -1
    shapes: list[Shape]  # by row


class ClassTable:
    def __init__(self) -> None:
        self.shapes: Symbols[Shape] = Symbols()
        self.classes: Symbols[ClassKey] = Symbols()
        self.moved: set[Key] = set()  # pods whose matching selectors changed under them
        self.index = PeerIndex(self.moved.add)
        self._peer_symbols: dict[int, list[int]] = {}
        self._texts: dict[Shape, str] = {}

    @property
    def version(self) -> int:
        return self.classes.changes

    def acquire(self, pod: Key, labels: Labels, shape: Shape) -> int:
        """The class of a pod of this shape; release it with `release`."""
        self.index.put_pod(pod, labels)
        known = shape in self.shapes.ids
        symbol = self.shapes.acquire(shape)
        if not known:
            self._peer_symbols[symbol] = [
                self.index.acquire(term.peers) for term in shape.peer_terms()
            ]
            self._texts[shape] = repr(shape)
        matched = self.index.matched.get(pod, frozenset())
        return self.classes.acquire((symbol, matched))

    def release(self, klass: int) -> None:
        shape_symbol, _ = self.classes.key(klass)
        shape = self.shapes.key(shape_symbol)
        self.classes.release(klass)
        if self.shapes.release(shape_symbol):
            del self._texts[shape]
            for peer in self._peer_symbols.pop(shape_symbol):
                self.index.release(peer)

    def rematch(self, pod: Key, klass: int) -> int:
        """The pod's class now that other selectors match it."""
        shape_symbol, _ = self.classes.key(klass)
        self.shapes.acquire(self.shapes.key(shape_symbol))
        new = self.classes.acquire((shape_symbol, self.index.matched.get(pod, frozenset())))
        self.release(klass)
        return new

    def keys_in_use(self) -> tuple[list[str], list[str]]:
        """Node label keys of selectors, and topology keys of peers and spreads."""
        keys: set[str] = set()
        topologies: set[str] = set()
        for shape in self.shapes:
            if not (shape.required or shape.preferred or self._has_peers(shape)):
                continue
            for selector in shape.required:
                keys.update(need.key for needs in selector for need in needs)
            for _, needs in shape.preferred:
                keys.update(need.key for need in needs)
            topologies.update(term.topology for term in shape.peer_terms())
        return sorted(keys), sorted(topologies)

    @staticmethod
    def _has_peers(shape: Shape) -> bool:
        return bool(
            shape.affinity or shape.anti_affinity or shape.preferred_affinity or shape.spread
        )

    def resources(self, nodes: NodeTable) -> list[str]:
        """Row names; a GPU vendor has a row of its own where nodes have different vendors."""
        asked = {name for shape in self.shapes for name, _ in shape.request}
        vendors = {v for row in nodes.rows.values() for v in GPU_RESOURCES if v in row.allocatable}
        more = asked - set(_FIXED)
        if len(vendors) < 2:
            more -= set(GPU_RESOURCES)
        return [*_FIXED, *sorted(more)]

    def build(self, nodes: NodeCodes, resources: list[str]) -> ClassArrays:
        texts, peers = self._texts, self.index.peers

        def canonical(item: tuple[ClassKey, int]) -> tuple[str, list[str]]:
            (shape_symbol, matched), _ = item
            return texts[self.shapes.key(shape_symbol)], sorted(repr(peers.key(m)) for m in matched)

        ordered = sorted(self.classes.ids.items(), key=canonical)
        row_of = np.full(len(self.classes) + 1, -1, dtype=np.int32)
        shapes: list[Shape] = []
        matched: list[frozenset[int]] = []
        for row, ((shape_symbol, matches), symbol) in enumerate(ordered):
            row_of[symbol] = row
            shapes.append(self.shapes.key(shape_symbol))
            matched.append(matches)
        distinct = sorted(set(shapes), key=texts.__getitem__)
        terms = sorted({t for s in distinct for t in s.peer_terms()}, key=repr)
        ports = sorted({p for s in distinct for p in s.ports})
        reader = _Reader(
            nodes, {t: i for i, t in enumerate(terms)}, {p: i for i, p in enumerate(ports)}
        )
        rules = {shape: reader.rules(shape) for shape in distinct}
        return ClassArrays(
            classes=_classes(shapes, rules, resources),
            peers=tuple(
                PeerTerm(
                    nodes.topology_row[t.topology],
                    np.array([peers.ids[t.peers] in m for m in matched], dtype=np.bool_),
                )
                for t in terms
            ),
            port_conflicts=tuple(
                tuple(j for j, other in enumerate(ports) if _collide(port, other)) for port in ports
            ),
            row_of=row_of,
            shapes=shapes,
        )


def _classes(shapes: list[Shape], rules: dict[Shape, ClassRules], resources: list[str]) -> Classes:
    row = {name: i for i, name in enumerate(resources)}
    request = np.zeros((len(resources), len(shapes)), dtype=np.int64)
    for c, shape in enumerate(shapes):
        for name, amount in shape.request:
            if name in row:
                request[row[name], c] = amount
        request[GPU, c] = requests.gpus(shape.request)
    request[PODS] = 1
    charge = request[:QUEUE_RESOURCES].astype(np.float64)
    for c, shape in enumerate(shapes):
        charge[GPU, c] += gpu_asks.slices(shape.request)
        charge[GPU, c] += round(shape.gpu.portion * 100) * shape.gpu.devices / 100
    return Classes(
        request=request,
        queue_request=charge,
        rules=tuple(rules[shape] for shape in shapes),
    )


def _collide(a: Port, b: Port) -> bool:
    return (
        a.port == b.port
        and a.protocol == b.protocol
        and (a.ip == b.ip or a.ip in _EVERYWHERE or b.ip in _EVERYWHERE)
    )


class _Reader:
    """Shapes into rules, against one code book."""

    def __init__(
        self, nodes: NodeCodes, peer_row: dict[PeerTermByName, int], port_row: dict[Port, int]
    ) -> None:
        self._nodes = nodes
        self._peer_row = peer_row
        self._port_row = port_row

    def rules(self, shape: Shape) -> ClassRules:
        peer = self._peer_row
        return ClassRules(
            required=tuple(self._selector(s) for s in shape.required),
            preferred=tuple((weight, self._term(needs)) for weight, needs in shape.preferred),
            tolerates=self._nodes.tolerated(shape.tolerations),
            ports=tuple(self._port_row[p] for p in shape.ports),
            affinity=tuple(peer[t] for t in shape.affinity),
            anti_affinity=tuple(peer[t] for t in shape.anti_affinity),
            preferred_affinity=tuple((weight, peer[t]) for weight, t in shape.preferred_affinity),
            spread=tuple(
                Spread(
                    peer[s.term],
                    s.max_skew,
                    s.hard,
                    s.min_domains,
                    s.honor_affinity,
                    s.honor_taints,
                )
                for s in shape.spread
            ),
            blocked=shape.blocked,
            blocked_detail=shape.blocked_detail,
        )

    def _selector(self, selector: NodeSelector) -> Selector:
        return tuple(self._term(needs) for needs in selector)

    def _term(self, needs: Needs) -> Term:
        found: list[Requirement] = []
        for key, op, values in needs:
            row = self._nodes.key_row[key]
            if op in ("Gt", "Lt"):
                found.append(Requirement(row, _OPS[op], (), int(values[0])))
            else:
                codes = self._nodes.values[row]
                known = tuple(codes[v] for v in values if v in codes)
                found.append(Requirement(row, _OPS[op], known))
        return tuple(found)

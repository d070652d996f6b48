"""Nodes as columns; labels, taints and domains only for the keys that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kai_ray.api import labels as names
from kai_ray.api.labels import GPU_RESOURCES, QUARANTINED_UNTIL
from kai_ray.cluster.port import Object
from kai_ray.scheduler.snapshot import Bools, Codes, Ints, Nodes

from . import bad_devices, requests, zone_rows
from .problems import text, texts
from .selectors import NODE_NAME, integer
from .shape import Toleration
from .zone_rows import ZoneRow

_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_NO_NUMBER = np.iinfo(np.int64).min


class Taint(NamedTuple):
    key: str
    value: str
    effect: str


class NodeRow(NamedTuple):
    ready: bool
    cordoned: bool
    allocatable: dict[str, int]
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    zones: ZoneRow | None = None  # what the node's own annotation tells
    bad: tuple[str, ...] = ()  # devices that are set aside
    lost: int = 0  # GPUs that its kubelet does not offer any more


def read(node: Object) -> NodeRow:
    """Raises Malformed."""
    spec = node.get("spec") or {}
    status = node.get("status") or {}
    raw = status.get("allocatable") or status.get("capacity") or {}
    bad = tuple(d.name for d in bad_devices.read(node["metadata"].get("annotations") or {}))
    return NodeRow(
        ready=_ready(status.get("conditions") or ())
        and not _leaving(node)
        and not _quarantined(node),
        cordoned=bool(spec.get("unschedulable")),
        allocatable={
            name: requests.amount(name, text, f"status.allocatable[{name}]")
            for name, text in raw.items()
        },
        labels=texts(node["metadata"].get("labels"), "metadata.labels"),
        taints=tuple(
            sorted(
                Taint(*(text(t.get(k), f"spec.taints.{k}") for k in ("key", "value", "effect")))
                for t in spec.get("taints") or ()
            )
        ),
        zones=zone_rows.read_annotation(
            (node["metadata"].get("annotations") or {}).get(names.NODE_ZONES)
        ),
        bad=bad,
        lost=_lost(status) if bad else 0,
    )


def _lost(status: dict[str, Any]) -> int:
    """Whole GPUs that the node has and its kubelet does not offer: its device plugin took them."""
    have, offered = status.get("capacity") or {}, status.get("allocatable") or {}
    lost = sum(
        requests.amount(name, have[name], f"status.capacity[{name}]")
        - requests.amount(name, offered.get(name, 0), f"status.allocatable[{name}]")
        for name in GPU_RESOURCES
        if name in have
    )
    return max(lost, 0)


def inert() -> NodeRow:
    """A node that cannot be read takes nothing."""
    return NodeRow(False, False, {}, {}, ())


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(_tolerates(t, taint) for t in tolerations)


def _tolerates(t: Toleration, taint: Taint) -> bool:
    if t.effect and t.effect != taint.effect:
        return False
    if t.key != taint.key and not (t.key == "" and t.op == "Exists"):
        return False
    if t.op == "Exists":
        return True
    if t.op == "Equal":
        return t.value == taint.value
    have, bound = integer(taint.value), integer(t.value)
    if have is None or bound is None:
        return False
    return have < bound if t.op == "Lt" else have > bound


def _ready(conditions: Iterable[dict[str, Any]]) -> bool:
    ready = False
    for c in conditions:
        if c.get("type") == "Ready":
            ready = c.get("status") == "True"
        elif c.get("type") in _PRESSURES and c.get("status") != "False":
            return False
    return ready


def _leaving(node: Object) -> bool:
    return bool(node["metadata"].get("deletionTimestamp"))


def _quarantined(node: Object) -> bool:
    """Marked as rejecting pods; whoever marked it takes the mark off in time."""
    return bool((node["metadata"].get("annotations") or {}).get(QUARANTINED_UNTIL))


class NodeTable:
    """All nodes of the shard. `version` moves with any change."""

    def __init__(self) -> None:
        self.rows: dict[str, NodeRow] = {}
        self.version = 0
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self._names_stale = False

    def put(self, name: str, row: NodeRow) -> bool:
        if self.rows.get(name) == row:
            return False
        self._names_stale |= name not in self.rows
        self.rows[name] = row
        self.version += 1
        return True

    def remove(self, name: str) -> bool:
        if self.rows.pop(name, None) is None:
            return False
        self._names_stale = True
        self.version += 1
        return True

    def settle(self) -> None:
        """Brings `names` and `row_of` up to date."""
        if self._names_stale:
            self.names = sorted(self.rows)
            self.row_of = {name: i for i, name in enumerate(self.names)}
            self._names_stale = False

    def ordered(self) -> list[NodeRow]:
        self.settle()
        rows = self.rows
        return [rows[name] for name in self.names]


class NodeCodes:
    """The code book of one set of nodes and keys: label values, taints, domains."""

    def __init__(
        self,
        table: NodeTable,
        keys: list[str],
        topologies: list[str],
        resources: list[str],
    ) -> None:
        rows = table.ordered()
        self.key_row = {key: i for i, key in enumerate(keys)}
        self.topology_row = {key: i for i, key in enumerate(topologies)}
        self.values: list[dict[str, int]] = []
        taints = sorted({t for row in rows for t in row.taints})
        self.hard = [t for t in taints if t.effect in ("NoSchedule", "NoExecute")]
        self.soft = [t for t in taints if t.effect == "PreferNoSchedule"]
        label_value = np.full((len(keys), len(rows)), -1, dtype=np.int32)
        label_number = np.full((len(keys), len(rows)), _NO_NUMBER, dtype=np.int64)
        for i, key in enumerate(keys):
            column = list(table.names) if key == NODE_NAME else _labels(rows, key)
            codes = _codes(column)
            self.values.append(codes)
            label_value[i] = _encode(column, codes)
            numbers = {v: n for v in codes if (n := integer(v)) is not None}
            if numbers:
                label_number[i] = [numbers.get(v, _NO_NUMBER) if v else _NO_NUMBER for v in column]
        domain = np.full((len(topologies), len(rows)), -1, dtype=np.int32)
        for i, key in enumerate(topologies):
            column = _labels(rows, key)
            domain[i] = _encode(column, _codes(column))
        self.nodes = Nodes(
            allocatable=_allocatable(rows, resources),
            rank=np.arange(len(rows), dtype=np.int32),
            ready=np.array([row.ready for row in rows], dtype=np.bool_),
            cordoned=np.array([row.cordoned for row in rows], dtype=np.bool_),
            label_value=label_value,
            label_number=label_number,
            taints=_taints(rows, self.hard),
            soft_taints=_taints(rows, self.soft),
            domain=domain,
        )

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> tuple[int, ...]:
        if not tolerations:
            return ()
        return tuple(
            i for i, taint in enumerate([*self.hard, *self.soft]) if tolerates(tolerations, taint)
        )


def _labels(rows: list[NodeRow], key: str) -> list[str | None]:
    return [row.labels.get(key) for row in rows]


def _codes(column: list[str | None] | list[str]) -> dict[str, int]:
    return {value: i for i, value in enumerate(sorted({v for v in column if v is not None}))}


def _encode(column: list[str | None] | list[str], codes: dict[str, int]) -> Codes:
    return np.array([-1 if v is None else codes[v] for v in column], dtype=np.int32)


def _taints(rows: list[NodeRow], taints: list[Taint]) -> Bools:
    table = np.zeros((len(taints), len(rows)), dtype=np.bool_)
    if taints:
        index = {t: i for i, t in enumerate(taints)}
        for n, row in enumerate(rows):
            for t in row.taints:
                i = index.get(t)
                if i is not None:
                    table[i, n] = True
    return table


def _allocatable(rows: list[NodeRow], resources: list[str]) -> Ints:
    """[R, N]; the GPU row sums all vendors."""
    table: NDArray[np.int64] = np.zeros((len(resources), len(rows)), dtype=np.int64)
    for r, name in enumerate(resources):
        if name == "gpu":
            for vendor in GPU_RESOURCES:
                table[r] += np.array([row.allocatable.get(vendor, 0) for row in rows], np.int64)
        else:
            table[r] = [row.allocatable.get(name, 0) for row in rows]
    return table

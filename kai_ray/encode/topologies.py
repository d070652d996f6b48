"""Topology objects as domains of nodes, and the constraints of PodGroups as rows of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kai_ray.cluster.port import Object
from kai_ray.scheduler.topology.facts import NONE, UNKNOWN, Topologies

from .node_rows import NodeTable
from .problems import Malformed, text

#: Levels of one Topology (KAI's CRD allows as many).
MOST_LEVELS = 16


class Level(NamedTuple):
    """One level: a node label, and another name for it."""

    label: str
    alias: str


class Bond(NamedTuple):
    """What a gang or subgroup asks, as it is written; levels by label or alias."""

    topology: str
    required: str
    preferred: str


def read(topology: Object) -> tuple[Level, ...]:
    """The levels, widest first. Raises Malformed."""
    raw = (topology.get("spec") or {}).get("levels")
    if not isinstance(raw, list) or not 1 <= len(raw) <= MOST_LEVELS:
        raise Malformed("spec.levels", f"is no list of 1 to {MOST_LEVELS} levels")
    levels: list[Level] = []
    seen: set[str] = set()
    for i, row in enumerate(raw):
        place = f"spec.levels[{i}]"
        if not isinstance(row, dict):
            raise Malformed(place, "is not an object")
        level = Level(
            text(row.get("nodeLabel"), f"{place}.nodeLabel"),
            text(row.get("alias"), f"{place}.alias"),
        )
        if not level.label:
            raise Malformed(f"{place}.nodeLabel", "is missing")
        for name in filter(None, level):
            if name in seen:
                raise Malformed(place, f"{name!r} is there twice: give each level its own name")
            seen.add(name)
        levels.append(level)
    return tuple(levels)


def bond(raw: Any, field: str) -> Bond | None:
    """A topologyConstraint; None where it asks nothing. Raises Malformed."""
    if not raw:
        return None
    if not isinstance(raw, dict):
        raise Malformed(field, "is not an object")
    names = ("topology", "requiredTopologyLevel", "preferredTopologyLevel")
    found = Bond(*(text(raw.get(name), f"{field}.{name}") for name in names))
    if found.required and not found.topology:
        mend = f"is missing though a level is required ({found.required!r}): name a Topology"
        raise Malformed(f"{field}.topology", mend)
    return found if found.topology and (found.required or found.preferred) else None


@dataclass(frozen=True, slots=True)
class TopologyTable:
    """The Topology objects by name, over the nodes of a cycle."""

    arrays: Topologies | None = None
    row_of: dict[str, int] = field(default_factory=dict[str, int])
    levels: tuple[tuple[Level, ...], ...] = ()
    paths: tuple[tuple[str, ...], ...] = ()  # per level row, the names of its domains

    def columns(self, bonds: Iterable[tuple[int, Bond]], count: int) -> NDArray[np.int32]:
        """[3, count + 1] topology, required and preferred level per symbol; the last is none."""
        found = np.full((3, count + 1), NONE, dtype=np.int32)
        for symbol, one in bonds:
            row = self.row_of.get(one.topology, UNKNOWN)
            levels = self.levels[row] if row >= 0 else ()
            found[:, symbol] = row, _level(levels, one.required), _level(levels, one.preferred)
        return found

    def level(self, topology: int, level: int) -> str:
        """The name of a level as users write it: its alias, else the node label."""
        found = self.levels[topology][level]
        return found.alias or found.label

    def domain(self, topology: int, level: int, code: int) -> str:
        """The name of a domain: its labels from the widest level down."""
        assert self.arrays is not None, "domains have names only where there are topologies"
        return self.paths[int(self.arrays.first[topology]) + level][code]


def build(topologies: dict[str, tuple[Level, ...]], nodes: NodeTable) -> TopologyTable:
    """The domains of all nodes. Objects in the order of their names."""
    if not topologies:
        return TopologyTable()
    names = sorted(topologies)
    levels = tuple(topologies[name] for name in names)
    first = np.cumsum([0, *map(len, levels)]).astype(np.int32)
    domain: list[NDArray[np.int32]] = []
    paths: list[tuple[str, ...]] = []
    labels = [row.labels for row in nodes.ordered()]
    for of in levels:
        for codes, known in _domains([level.label for level in of], labels):
            domain.append(codes)
            paths.append(known)
    arrays = Topologies(first, np.stack(domain))
    return TopologyTable(arrays, {name: i for i, name in enumerate(names)}, levels, tuple(paths))


def _domains(
    keys: list[str], labels: list[dict[str, str]]
) -> Iterable[tuple[NDArray[np.int32], tuple[str, ...]]]:
    """Per level, the code of each node's path down to it, and the paths in name order."""
    whole: list[tuple[str, ...] | None] = []
    for of in labels:
        values = [of.get(key) for key in keys]
        whole.append(tuple(v for v in values if v is not None) if None not in values else None)
    for depth in range(1, len(keys) + 1):
        known = sorted({path[:depth] for path in whole if path}, key=lambda p: (".".join(p), p))
        code = {path: i for i, path in enumerate(known)}
        codes = [code[path[:depth]] if path else -1 for path in whole]
        yield np.array(codes, dtype=np.int32), tuple(".".join(path) for path in known)


def _level(levels: tuple[Level, ...], name: str) -> int:
    if not name:
        return NONE
    return next((i for i, level in enumerate(levels) if name in level), UNKNOWN)

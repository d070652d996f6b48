"""Recorded Topology objects and constraints as columns of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kai_ray.scheduler.topology.facts import NONE, UNKNOWN, Topologies


@dataclass(frozen=True, slots=True)
class TopologyTable:
    """The Topology objects of a case by name, and the rows of their levels."""

    rows: Mapping[str, int]
    levels: tuple[tuple[str, ...], ...]  # per object, label keys, the widest first

    def constraint(self, stated: dict[str, Any] | None) -> tuple[int, int, int]:
        """(topology, required level, preferred level) of a recorded constraint."""
        if not stated or not stated.get("topology"):
            return NONE, NONE, NONE
        topology = self.rows.get(stated["topology"], UNKNOWN)
        if topology == UNKNOWN:
            topology_levels: tuple[str, ...] = ()
        else:
            topology_levels = self.levels[topology]
        required, preferred = (
            _level(topology_levels, stated.get(key))
            for key in ("required_level", "preferred_level")
        )
        return topology, required, preferred

    def arrays(self, nodes: list[dict[str, Any]]) -> Topologies | None:
        """The domains of the nodes, one row a level."""
        if not self.levels:
            return None
        first = np.cumsum([0, *(len(levels) for levels in self.levels)])
        domain = [row for levels in self.levels for row in _domains(levels, nodes)]
        return Topologies(
            first.astype(np.int32),
            np.array(domain, dtype=np.int32).reshape(len(domain), len(nodes)),
        )


def topology_table(recorded: list[dict[str, Any]]) -> TopologyTable:
    """The table of `cluster.topologies`."""
    return TopologyTable(
        {one["name"]: row for row, one in enumerate(recorded)},
        tuple(tuple(one["levels"]) for one in recorded),
    )


def _level(levels: tuple[str, ...], key: str | None) -> int:
    if not key:
        return NONE
    return levels.index(key) if key in levels else UNKNOWN


def _domains(levels: tuple[str, ...], nodes: list[dict[str, Any]]) -> list[list[int]]:
    """Per level, the code of each node's path down to it, in name order; -1 = not in it."""
    paths = [tuple(node["labels"].get(key) for key in levels) for node in nodes]
    whole = [None not in path for path in paths]
    rows: list[list[int]] = []
    for depth in range(1, len(levels) + 1):
        names = [".".join(map(str, path[:depth])) for path in paths]
        known = sorted({name for name, there in zip(names, whole, strict=True) if there})
        code = {name: i for i, name in enumerate(known)}
        rows.append([code[n] if there else -1 for n, there in zip(names, whole, strict=True)])
    return rows

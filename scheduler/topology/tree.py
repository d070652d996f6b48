"""The domains of one Topology object over the ledger's nodes, level by level."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..snapshot import Bools, Codes, Floats, Ints
from .facts import Topologies

#: The level above the widest: one domain that holds every node of the topology.
ROOT = -1


@dataclass(frozen=True, slots=True)
class Tree:
    """Levels count from 0, the widest; domains of a level from 0, in name order."""

    domain: Codes  # [levels, N]; -1 = the node does not belong
    count: tuple[int, ...]  # domains per level
    above: tuple[Codes, ...]  # per level, the domain one level up of each domain
    first_node: tuple[Codes, ...]  # per level, one node of each domain

    @property
    def inside(self) -> Bools:
        """[N] nodes that belong to the topology."""
        return self.domain[0] >= 0

    def nodes(self, level: int, domain: int) -> Bools:
        """[N] the nodes of a domain."""
        return self.inside if level == ROOT else self.domain[level] == domain

    def sums(self, level: int, amounts: Ints | Floats) -> Floats:
        """[domains of the level] sums of a node column; exact below 2^53."""
        if level == ROOT:
            return np.array([amounts[self.inside].sum()], dtype=np.float64)
        at = self.domain[level] + 1
        total = np.bincount(at, weights=amounts, minlength=self.count[level] + 1)
        return total[1:].astype(np.float64, copy=False)

    def domains(self, level: int) -> int:
        return 1 if level == ROOT else self.count[level]

    def ancestors(self, level: int, wider: int) -> Codes:
        """[domains of `level`] the domain of level `wider` that each lies in."""
        if wider == ROOT:
            return np.zeros(self.count[level], dtype=np.int32)
        found = np.arange(self.count[level], dtype=np.int32)
        for row in range(level, wider, -1):
            found = self.above[row][found]
        return found


def trees(topologies: Topologies, order: Codes) -> tuple[Tree, ...]:
    """One tree per Topology object; `order` [N] are the snapshot's rows of the ledger's nodes."""
    first: list[int] = topologies.first.tolist()
    return tuple(_tree(topologies.domain[start:end, order]) for start, end in pairwise(first))


def _tree(domain: Codes) -> Tree:
    domain = np.where((domain >= 0).all(axis=0), domain, -1).astype(np.int32)
    count = tuple(int(row.max(initial=-1)) + 1 for row in domain)
    above: list[Codes] = []
    nodes: list[Codes] = []
    for level, row in enumerate(domain):
        there = np.flatnonzero(row >= 0)[::-1]  # the first node by name is written last
        parent = np.zeros(count[level], dtype=np.int32)
        parent[row[there]] = domain[level - 1][there] if level else 0
        first = np.zeros(count[level], dtype=np.int32)
        first[row[there]] = there
        above.append(parent)
        nodes.append(first)
    return Tree(np.ascontiguousarray(domain), count, tuple(above), tuple(nodes))

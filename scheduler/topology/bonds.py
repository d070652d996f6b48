"""All that a cycle knows of topology: the trees, who is constrained, where their pods are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import Codes, Snapshot
from .parts import Constraints
from .seats import Seats
from .tree import Tree, trees

if TYPE_CHECKING:
    from ..actions.attempt import Attempt


@dataclass(frozen=True, slots=True)
class Bonds:
    """Made once a cycle, and only where some gang is constrained."""

    trees: tuple[Tree, ...]
    constraints: Constraints
    seats: Seats
    root: tuple[int, ...]  # [G] rows of SubGroups

    def kind(self, gang: int, attempt: Attempt) -> tuple[object, ...]:
        """What attempts must have in common, besides their pods, to be placed alike."""
        if gang not in self.constraints.gangs:
            return ()
        root, constraints = self.root[gang], self.constraints
        chains = [
            tuple((row - root, constraints.of(row)) for row in constraints.chain(leaf))
            for leaf, _ in attempt.runs
        ]
        tied = any(not self.seats.empty(root + row) for chain in chains for row, _ in chain)
        return (*chains, gang if tied else -1)

    def torn(self, gang: int) -> bool:
        """Whether pods that require one domain are in more than one."""
        for row in self.constraints.of_gang(gang):
            constraint = self.constraints.of(row)
            if constraint is None or constraint.problem or constraint.required < 0:
                continue
            domain = self.trees[constraint.topology].domain[constraint.required]
            seats = self.seats.of(row, domain.shape[0])
            if seats is not None and np.unique(domain[seats > 0]).shape[0] > 1:
                return True
        return False


def bonds(snapshot: Snapshot, order: Codes, node_of: Codes) -> Bonds | None:
    """`order` [N] are the snapshot's rows of the ledger's nodes, `node_of` [T] the pods' nodes."""
    subgroups = snapshot.subgroups
    if subgroups.topology is None:
        return None
    forest = () if snapshot.topologies is None else trees(snapshot.topologies, order)
    constraints = Constraints(subgroups, forest)
    if not constraints.gangs:
        return None
    seats = Seats(subgroups, snapshot.tasks, node_of, constraints.rows)
    return Bonds(forest, constraints, seats, tuple(snapshot.gangs.root.tolist()))

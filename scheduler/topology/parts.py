"""An attempt seen as nested constraints: what must or should stay together, and inside what.

Sets and leaves without a constraint are transparent: their pods belong to the nearest constrained
ancestor. What comes out is a small tree whose inner nodes are constraints and whose ends are runs
of equal pods, in the order of placement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..pending import Run
from ..reason import Reason
from ..snapshot import SubGroups
from .facts import NONE, UNKNOWN
from .tree import ROOT, Tree

if TYPE_CHECKING:
    from ..actions.attempt import Attempt

#: A leaf and equal pods of it.
LeafRun: TypeAlias = "tuple[int, Run]"
#: Constraints nested deeper than this are refused.
DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Constraint:
    """What one subgroup (the root row = the gang) asks of the topology."""

    topology: int
    required: int  # level, NONE
    preferred: int  # level, NONE
    problem: Reason = Reason.NONE  # why it can never be met

    @property
    def wanted(self) -> int:
        """The narrowest level that counts; a preferred one that is not narrower says nothing."""
        return max(self.required, self.preferred)

    @property
    def widest(self) -> int:
        """The widest level that will do."""
        return self.required if self.required != NONE else ROOT


@dataclass(slots=True)
class Part:
    """One constraint and what it holds."""

    row: int  # of SubGroups
    constraint: Constraint
    items: list[Part | LeafRun] = field(default_factory=list["Part | LeafRun"])
    totals: dict[int, int] = field(default_factory=dict[int, int])  # class -> pods

    @property
    def pods(self) -> int:
        return sum(self.totals.values())

    @property
    def parts(self) -> list[Part]:
        """The constraints directly inside."""
        return [item for item in self.items if isinstance(item, Part)]


class Constraints:
    """The constraints of all gangs, by row of SubGroups."""

    def __init__(self, subgroups: SubGroups, trees: tuple[Tree, ...]) -> None:
        self._subgroups, self._trees = subgroups, trees
        self._parent: list[int] = subgroups.parent.tolist()
        self._of_row: dict[int, Constraint] = {}
        self._of_gang: dict[int, list[int]] = {}
        self.gangs: frozenset[int] = frozenset()
        """Gangs that have any constraint."""
        if subgroups.topology is None:
            return
        level = [subgroups.required_level, subgroups.preferred_level]
        named = np.flatnonzero(subgroups.topology != NONE)
        for row in named.tolist():
            required, preferred = (NONE if c is None else int(c[row]) for c in level)
            found = self._read(int(subgroups.topology[row]), required, preferred)
            if found is not None:
                self._of_row[row] = found
        for row in self._of_row:
            self._of_gang.setdefault(int(subgroups.gang[row]), []).append(row)
        self.gangs = frozenset(self._of_gang)

    @property
    def rows(self) -> list[int]:
        """Rows of SubGroups that state a constraint."""
        return list(self._of_row)

    def of(self, row: int) -> Constraint | None:
        """The constraint that a subgroup states itself."""
        return self._of_row.get(row)

    def of_gang(self, gang: int) -> list[int]:
        """The gang's rows that state a constraint."""
        return self._of_gang.get(gang, [])

    def chain(self, leaf: int) -> list[int]:
        """Constrained rows from a leaf upward, the narrowest first."""
        rows: list[int] = []
        row = leaf
        while row >= 0:
            if row in self._of_row:
                rows.append(row)
            row = self._parent[row]
        return rows

    def parts(self, attempt: Attempt) -> list[Part | LeafRun] | Reason:
        """The attempt as nested parts, or why its constraints can never be met."""
        top: list[Part | LeafRun] = []
        made: dict[int, Part] = {}
        for leaf, run in attempt.runs:
            chain = self.chain(leaf)
            if len(chain) > DEEPEST:
                return Reason.MISCONFIGURED
            inside: Part | None = None
            for row in reversed(chain):
                part = made.get(row)
                if part is None:
                    constraint = self._of_row[row]
                    if constraint.problem:
                        return constraint.problem
                    part = made[row] = Part(row, constraint)
                    (top if inside is None else inside.items).append(part)
                part.totals[run[2]] = part.totals.get(run[2], 0) + run[1]
                inside = part
            (top if inside is None else inside.items).append((leaf, run))
        return top

    def _read(self, topology: int, required: int, preferred: int) -> Constraint | None:
        if required == NONE and preferred == NONE:
            return None
        if not 0 <= topology < len(self._trees):
            return Constraint(NONE, NONE, NONE, Reason.TOPOLOGY_NOT_FOUND)
        levels = len(self._trees[topology].count)
        if any(level == UNKNOWN or level >= levels for level in (required, preferred)):
            return Constraint(topology, NONE, NONE, Reason.TOPOLOGY_LEVEL_NOT_FOUND)
        return Constraint(topology, required, preferred)

"""Which domains could be emptied for a gang that must have one: what a victim search aims at.

A search that counts free room in the whole cluster would evict here and there and free no rack.
For an attempt whose pods must all share a domain, room counts per domain, and of those who could go
only the ones inside one domain are taken together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..actions.attempt import Attempt
from ..snapshot import Bools, Floats, Ints
from .bonds import Bonds
from .facts import NONE
from .parts import Part
from .tree import Tree


class WholeDomain:
    """The level of which one domain must hold an attempt."""

    def __init__(self, tree: Tree, level: int, company: Bools | None) -> None:
        """`company` [domains]: only these will do, because members run there; None = any."""
        self._tree, self._level, self._company = tree, level, company

    def enough(self, amounts: Sequence[tuple[Ints | Floats, float]]) -> bool:
        """Whether some domain has all: ([N] what nodes have, what is wanted) of each kind."""
        fine = np.ones(self._tree.count[self._level], dtype=np.bool_)
        if self._company is not None:
            fine &= self._company
        for have, want in amounts:
            fine &= self._tree.sums(self._level, have) >= want
        return bool(fine.any())

    def around(self, nodes: Iterable[int]) -> Iterator[Bools]:
        """[N] the domains that these nodes lie in and that will do, by name."""
        code = self._tree.domain[self._level]
        for domain in sorted({int(code[node]) for node in nodes}):
            if domain >= 0 and (self._company is None or self._company[domain]):
                yield code == domain


def whole_domain(bonds: Bonds | None, gang: int, attempt: Attempt) -> WholeDomain | None:
    """The domain that all pods of the attempt must share; None where they need not."""
    if bonds is None or gang not in bonds.constraints.gangs:
        return None
    items = bonds.constraints.parts(attempt)
    if not isinstance(items, list) or len(items) != 1 or not isinstance(items[0], Part):
        return None
    part = items[0]
    level = part.constraint.required
    if level == NONE:
        return None
    tree = bonds.trees[part.constraint.topology]
    seats = bonds.seats.of(part.row, tree.domain.shape[1])
    return WholeDomain(tree, level, None if seats is None else tree.sums(level, seats) > 0)

"""How many pods of a part each node counts for: copies, less what inner constraints leave unused.

A rack of 7 free nodes holds one unit of 4 that must share a rack, not 7 pods. Where equal units
fill a part, a domain's count is rounded down to whole units, and written on one node of it: sums
over any wider domain are then right, one vector operation per level, however many units there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..fit import Fits
from ..snapshot import GPU, PODS, Bools, Ints
from .facts import NONE
from .parts import Part
from .tree import Tree


@dataclass(frozen=True, slots=True)
class Capacity:
    """Room for one part, per node."""

    pods: tuple[tuple[Ints, int], ...]  # ([N] copies, pods wanted) of each class
    exact: bool  # enough in sum means that it fits
    need: tuple[tuple[Ints, float], ...]  # ([N] free, amount wanted) of each resource
    resources: tuple[int, ...]  # the rows of `need`


class Capacities:
    """Capacities of the parts of one attempt, as the ledger stands."""

    def __init__(self, fits: Fits, trees: tuple[Tree, ...]) -> None:
        self._fits, self._trees, self._ledger = fits, trees, fits.ledger

    def of(self, part: Part, within: Bools | None, now: bool = False) -> Capacity:
        """Room on the nodes `within` [N]; `now` counts idle room only, not what is released."""
        totals = list(part.totals.items())
        copies = [self._copies(klass, pods, within, now) for klass, pods in totals]
        exact = False
        if len(totals) == 1:
            linked = self._fits.get(totals[0][0]).linked
            copies[0], exact = self._units(part, copies[0], part.pods, linked)
        pods = tuple(zip(copies, part.totals.values(), strict=True))
        return Capacity(pods, exact, *self._need(part, within))

    def _copies(self, klass: int, most: int, within: Bools | None, now: bool) -> Ints:
        fit = self._fits.of(klass)
        copies = np.minimum(fit.now if now else fit.later, most)
        return copies if within is None else np.where(within, copies, 0)

    def _units(self, part: Part, copies: Ints, most: int, linked: bool) -> tuple[Ints, bool]:
        """[N] pods of the one class that count, and whether their sums are exact."""
        inner = part.parts
        binding = [p for p in inner if p.constraint.required != NONE]
        if not binding:
            return copies, not linked and not inner
        first = binding[0]
        alike = len(binding) == len(part.items) and all(_alike(first, p) for p in binding)
        if not alike or first.constraint.topology != part.constraint.topology:
            return copies, False  # what is left unused cannot be told by sums
        copies, exact = self._units(first, copies, most, linked)
        tree, level = self._trees[first.constraint.topology], first.constraint.required
        whole = tree.sums(level, copies).astype(np.int64) // first.pods * first.pods
        counted = np.zeros_like(copies)
        counted[tree.first_node[level]] = np.minimum(whole, most)
        return counted, exact

    def _need(
        self, part: Part, within: Bools | None
    ) -> tuple[tuple[tuple[Ints, float], ...], tuple[int, ...]]:
        """What the part asks for and what suitable nodes have of it; pod slots do not count."""
        ledger, classes = self._ledger, self._ledger.snapshot.classes
        want = np.zeros(classes.request.shape[0])
        suits: Bools = np.zeros(ledger.nodes.count, dtype=np.bool_)
        for klass, pods in part.totals.items():
            request = classes.request[:, klass].astype(np.float64)
            request[GPU] = max(request[GPU], classes.queue_request[GPU, klass])
            want += request * pods
            suits |= self._fits.get(klass).suits
        want[PODS] = 0
        suits = suits if within is None else suits & within
        free = ledger.idle + ledger.releasing if ledger.any_releasing else ledger.idle
        rows = np.flatnonzero(want).tolist()
        need = tuple((np.where(suits, np.maximum(free[r], 0), 0), float(want[r])) for r in rows)
        return need, tuple(rows)


def _alike(part: Part, other: Part) -> bool:
    """Whether two parts ask for the same number of pods under the same constraints."""
    if part.constraint != other.constraint or part.totals != other.totals:
        return False
    mine, its = part.parts, other.parts
    return len(mine) == len(its) and all(map(_alike, mine, its))

"""Which domain is tried first: where the gang is already, what starts now, the tightest, by name.

Tight is what the part needs over what the domain has free, of the resource that is scarcest there
(KAI 0.17, dominant ratio); the tightest of the widest level comes first, and inside it the tightest
of the next, so that fragments are filled before whole domains are broken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..snapshot import Bools, Floats, Ints
from .capacity import Capacity
from .tree import ROOT, Tree

#: The ratio where a resource that is needed is not there at all.
_NOTHING_FREE = 1000.0
#: What parts of GPUs may be off in sum.
_ROUNDING = 1e-6


def tightness(capacity: Capacity, tree: Tree, level: int) -> Floats:
    """[domains] need over free of the scarcest resource."""
    ratio = np.zeros(tree.domains(level))
    for free, want in capacity.need:
        there = tree.sums(level, free)
        part = np.full_like(ratio, _NOTHING_FREE)
        np.divide(want, there, out=part, where=there > 0)
        np.maximum(ratio, part, out=ratio)
    return ratio


def tree_order(capacity: Capacity, tree: Tree, level: int) -> Ints:
    """[domains of the level] place of each: tight before roomy at every level, then by name."""
    place = np.zeros(1, dtype=np.int64)
    if level == ROOT:
        return place
    for at in range(level + 1):
        above = place[tree.above[at]] if at else np.zeros(tree.count[0], dtype=np.int64)
        order = np.lexsort((-tightness(capacity, tree, at), above))
        place = np.empty(tree.count[at], dtype=np.int64)
        place[order] = np.arange(tree.count[at])
    return place


def enough(capacity: Capacity, tree: Tree, level: int) -> Bools:
    """[domains] where the sums do not forbid the part."""
    fine = np.ones(tree.domains(level), dtype=np.bool_)
    for copies, pods in capacity.pods:
        fine &= tree.sums(level, copies) >= pods
    if len(capacity.pods) > 1:
        for free, want in capacity.need:
            fine &= tree.sums(level, free) >= want - _ROUNDING
    return fine


def ranked(fitting: Bools, place: Ints, *first: Floats | Ints) -> list[int]:
    """The fitting domains, the best first: by each of `first`, larger is better, then by place."""
    codes = np.flatnonzero(fitting)
    keys: Sequence[Floats | Ints] = [place[codes], *(-key[codes] for key in reversed(first))]
    return codes[np.lexsort(keys)].tolist()

"""What keeps a gang from its domain: which one comes nearest, and what it lacks."""

from __future__ import annotations

import numpy as np

from ..plan import DomainLack
from .capacity import Capacity
from .parts import Part
from .tree import ROOT, Tree


def nearest(part: Part, capacity: Capacity, tree: Tree, tied: bool) -> DomainLack:
    """The domain of the widest level that will do which has room for most of the part's pods."""
    constraint = part.constraint
    level = constraint.widest
    room = np.zeros(tree.domains(level))
    for copies, pods in capacity.pods:
        room += np.minimum(tree.sums(level, copies), pods)
    best = int(room.argmax()) if room.shape[0] else -1
    missing: list[tuple[int, int]] = []
    if best >= 0:
        for row, (free, want) in zip(capacity.resources, capacity.need, strict=True):
            lacks = want - float(tree.sums(level, free)[best])
            if lacks > 0:
                missing.append((row, int(np.ceil(lacks))))
    return DomainLack(
        topology=constraint.topology,
        level=level,
        domain=best if level != ROOT else -1,
        room=int(room[best]) if best >= 0 else 0,
        wanted=part.pods,
        missing=tuple(missing),
        tied=tied,
    )

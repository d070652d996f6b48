"""The queue tree as levels of rows, so that a rule about parents is one vector step per level."""

from __future__ import annotations

import numpy as np

from ..snapshot import Codes, Floats


def levels(parent: Codes) -> list[Codes]:
    """Rows by depth, top level first. `parent` [Q] holds row numbers, -1 for a top-level queue.

    Raises ValueError where the parents form a cycle.
    """
    depth = np.zeros(parent.shape[0], dtype=np.int32)
    child = parent >= 0
    above = np.where(child, parent, 0)
    for _ in range(parent.shape[0] + 1):
        deeper = np.where(child, depth[above] + 1, 0).astype(np.int32)
        if np.array_equal(deeper, depth):
            deepest = int(depth.max(initial=-1))
            return [np.flatnonzero(depth == d).astype(np.int32) for d in range(deepest + 1)]
        depth = deeper
    raise ValueError("queues.parent: the parents form a cycle; make one of them a top-level queue")


def roll_up(parent: Codes, own: Floats) -> Floats:
    """Adds what each queue holds itself to all its ancestors: `own` [3, Q] -> the same shape."""
    total = np.array(own.T, dtype=np.float64)
    for rows in reversed(levels(parent)[1:]):
        np.add.at(total, parent[rows], total[rows])
    return np.ascontiguousarray(total.T)


def path(parent: Codes, queue: int) -> tuple[int, ...]:
    """The queue and its ancestors, leaf first. Empty for -1."""
    chain: list[int] = []
    while queue >= 0:
        chain.append(queue)
        queue = int(parent[queue])
    return tuple(chain)

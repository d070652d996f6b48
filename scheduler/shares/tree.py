"""The queue tree as levels of rows, so that a rule about parents is one vector step per level."""

from __future__ import annotations

import numpy as np

from ..snapshot import Codes, Floats


def levels(parent: Codes) -> list[Codes]:
    """Rows by depth, top level first. `parent` [Q] holds row numbers, -1 for a top-level queue.

    Raises ValueError where the parents form a cycle.
    """
    depth = depths(parent)
    order = np.argsort(depth, kind="stable").astype(np.int32)
    starts = np.flatnonzero(np.diff(depth[order])) + 1
    return np.split(order, starts) if len(order) else []


def depths(parent: Codes) -> Codes:
    """[Q] number of ancestors, by jumping twice as far in each step."""
    jump = np.append(parent, -1).astype(np.int64)  # the last entry stands for "no parent"
    steps = (jump >= 0).astype(np.int32)
    for _ in range(len(parent).bit_length() + 1):
        if (jump < 0).all():
            return steps[:-1]
        steps += steps[jump]
        jump = jump[jump]
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

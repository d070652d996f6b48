"""How many copies of a request a node's free amounts hold: the arithmetic under `fit`.

Source: KAI 0.17, fit test on resource vectors: every row of the request must be within the node's
row. A row that is already overdrawn therefore refuses every pod, also one that asks 0 of it.
"""

from __future__ import annotations

import numpy as np

from ..reason import Reason
from ..snapshot import CPU, GPU, MEMORY, PODS, Bools, Ints

#: More copies than any cluster holds: the count where nothing is asked for.
PLENTY = np.iinfo(np.int32).max


def copies(free: Ints, request: Ints, asked: tuple[int, ...]) -> Ints:
    """[n] whole copies of `request` [R] in each column of `free` [R, n]; never negative.

    `asked` names the rows in which `request` is positive.
    """
    held: Ints = np.full(int(free.shape[1]), PLENTY, dtype=np.int64)
    for r in asked:
        each = int(request[r])
        np.minimum(held, free[r] if each == 1 else free[r] // each, out=held)
    held[(free < 0).any(axis=0)] = 0
    return held


def lacks(free: Ints, request: Ints) -> Ints:
    """[R, n] what each column of `free` lacks to take one copy of `request` [R]."""
    return np.maximum(request[:, None] - free, 0)


def reason_of(row: int) -> Reason:
    """The word for a lack of resource row `row`."""
    return _WORDS.get(row, Reason.INSUFFICIENT_RESOURCE)


def telling_order(rows: int) -> list[int]:
    """Resource rows, the one a user should hear of first in front: GPUs, then what is left."""
    return [GPU, *range(PODS + 1, rows), CPU, MEMORY, PODS]


def lacking(free: Ints, request: Ints) -> list[tuple[Reason, Bools]]:
    """Per reason in telling order, which columns of `free` lack it for one copy."""
    short = lacks(free, request) > 0
    return [(reason_of(r), short[r]) for r in telling_order(request.shape[0])]


_WORDS = {
    GPU: Reason.INSUFFICIENT_GPU,
    CPU: Reason.INSUFFICIENT_CPU,
    MEMORY: Reason.INSUFFICIENT_MEMORY,
    PODS: Reason.NO_POD_SLOT,
}

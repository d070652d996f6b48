"""Counts of values in buckets, filled by the array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Reading(NamedTuple):
    """What a histogram has at one moment, in the form of Prometheus."""

    buckets: list[tuple[str, float]]
    """(upper bound, values up to it), each with those of the buckets below it; "+Inf" is last."""
    total: float
    """The sum of all values."""


class Histogram:
    """One thread adds, any may read. `bounds`: upper bounds of the buckets, ascending."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = np.array(bounds, dtype=np.float64)
        self._state = (np.zeros(len(bounds) + 1, dtype=np.int64), 0.0)

    def add(self, values: ArrayLike) -> None:
        """Any number of finite values; negative ones (a clock that was set) count as 0."""
        found = np.maximum(np.asarray(values, dtype=np.float64).reshape(-1), 0.0)
        if not found.size:
            return
        counts, total = self._state
        bucket = np.searchsorted(self._bounds, found, side="left")
        counts = counts + np.bincount(bucket, minlength=counts.size)
        self._state = (counts, total + float(found.sum()))  # at once, for who reads beside us

    def read(self) -> Reading:
        counts, total = self._state
        up_to = np.cumsum(counts).tolist()
        words = [*(f"{bound:g}" for bound in self._bounds.tolist()), "+Inf"]
        return Reading(list(zip(words, up_to, strict=True)), total)


def doubling(first: float, count: int) -> tuple[float, ...]:
    """`count` bounds, each twice the one before."""
    return tuple(first * 2**i for i in range(count))

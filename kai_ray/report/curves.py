"""Columns of the history as points of a curve, with gaps where nothing was recorded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

#: (seconds since 1970, value that holds until the next point; None: not known from there on)
Points = tuple[tuple[float, float | None], ...]

#: The next sample may be late by half a step before its time counts as unknown.
_LATE = 1.5


def points(at_s: Iterable[float], values: Iterable[float], step_s: float) -> Points:
    """Each sample stands for a step; NaN and times without samples are unknown."""
    found: list[tuple[float, float | None]] = []
    for at, value in zip(at_s, values, strict=True):
        if found and at - found[-1][0] > _LATE * step_s and found[-1][1] is not None:
            found.append((found[-1][0] + step_s, None))
        found.append((at, value if math.isfinite(value) else None))
    if found and found[-1][1] is not None:
        found.append((found[-1][0] + step_s, None))
    return tuple(found)


def ratio(upper: Points, lower: Points) -> Points:
    """`upper` / `lower` at the moments of `upper`; both come from one series."""
    below = dict(lower)
    found: list[tuple[float, float | None]] = []
    for at, value in upper:
        base = below.get(at)
        found.append((at, value / base if value is not None and base else None))
    return tuple(found)


def integral(curve: Points, until_s: float) -> float | None:
    """Value times seconds, of what is known; None if nothing is."""
    total, known = 0.0, False
    for (at, value), (end, _) in itertools.pairwise((*curve, (until_s, None))):
        if value is not None and end > at:
            total, known = total + value * (min(end, until_s) - at), True
    return total if known else None

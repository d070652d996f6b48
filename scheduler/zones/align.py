"""Which zones of a node a pod would get: the kubelet's topology manager, for many nodes at once.

All arrays end in the nodes looked at, n. Source: KAI 0.17, plugin numa:
- single: the lowest zone that has everything.
- restricted: per resource, the fewest zones whose largest amounts reach the need; all resources
  must agree on that number; then the first such set of zones that has enough of everything.
- best effort: zones are added by how much of the unmet need they cover.
Amounts are then taken from the chosen zones, the lowest first.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from ..snapshot import Bools, Ints
from .facts import Unit, ZonePolicy

#: Sets of zones that are tried on one kind of node at most.
_MOST_SETS = 4096


class Aligned(NamedTuple):
    """The outcome on each node."""

    fine: Bools  # [n] whether the policy can be kept
    span: Ints  # [n] zones used, at least 1; 0 where it cannot
    drawn: Ints  # [Z, A, n] what is taken


def align(
    available: Ints, allocatable: Ints, aware: Bools, policy: Ints, units: tuple[Unit, ...]
) -> Aligned:
    """`available`, `allocatable` [Z, A, n], `aware` [A, n], `policy` [n] -> where units go."""
    left = available.copy()
    fine = np.ones(policy.shape[0], dtype=np.bool_)
    used = np.zeros((available.shape[0], policy.shape[0]), dtype=np.bool_)
    drawn = np.zeros_like(available)
    for unit in units:
        want = np.array(unit.want, dtype=np.int64)[:, None] * aware
        room = available if unit.serial else left
        chosen, met = _choose(room, allocatable, want, policy)
        fine &= met
        taken = _draw(room, chosen, want)
        used |= taken.any(axis=1)
        if not unit.serial:
            left = left - taken
            drawn += taken
    span = np.where(fine, np.maximum(used.sum(axis=0), 1), 0)
    return Aligned(fine, span, np.where(fine, drawn, 0))


def copies(
    available: Ints, aware: Bools, policy: Ints, allocatable: Ints, units: tuple[Unit, ...]
) -> Ints:
    """[n] pods that fit one after the other, at most; exact where each takes one zone."""
    want = np.array([u.want for u in units if not u.serial], dtype=np.int64).reshape(
        -1, aware.shape[0]
    )
    total = want.sum(axis=0)[:, None] * aware
    most = np.full(policy.shape[0], np.iinfo(np.int32).max, dtype=np.int64)
    whole = available.sum(axis=0)
    per_zone = np.full((available.shape[0], policy.shape[0]), most[0] if most.size else 0)
    for a in range(aware.shape[0]):
        asked = total[a] > 0
        each = np.maximum(total[a], 1)
        most = np.where(asked, np.minimum(most, whole[a] // each), most)
        per_zone = np.where(asked, np.minimum(per_zone, available[:, a] // each), per_zone)
    one = policy == ZonePolicy.SINGLE
    if want.shape[0] == 1:
        width, agree = _width(allocatable, total)
        one = one | ((policy == ZonePolicy.RESTRICTED) & agree & (width <= 1))
        most = np.where(one, np.minimum(most, np.maximum(per_zone, 0).sum(axis=0)), most)
    return np.where(policy <= ZonePolicy.BEST_EFFORT, np.iinfo(np.int32).max, np.maximum(most, 0))


def _choose(room: Ints, allocatable: Ints, want: Ints, policy: Ints) -> tuple[Bools, Bools]:
    """[Z, n] the zones to take from, [n] whether that keeps the policy."""
    fits = ((room >= want) | (want == 0)).all(axis=1)
    lowest = fits & (np.cumsum(fits, axis=0) == 1)
    chosen, met = lowest, fits.any(axis=0)
    wide = policy == ZonePolicy.RESTRICTED
    if wide.any():
        width, agree = _width(allocatable, want)
        met = np.where(wide & ~agree, False, met)
        for size in sorted(set(width[wide & agree & (width > 1)].tolist())):
            at = np.flatnonzero(wide & agree & (width == size))
            chosen[:, at], met[at] = _first_set(room[:, :, at], want[:, at], size)
    loose = policy <= ZonePolicy.BEST_EFFORT
    if loose.any():
        at = np.flatnonzero(loose)
        chosen[:, at], met[at] = _greedy(room[:, :, at], want[:, at])
    return chosen, met


def _width(allocatable: Ints, want: Ints) -> tuple[Ints, Bools]:
    """[n] zones that the amounts need, and whether all resources need the same number."""
    largest = np.cumsum(-np.sort(-allocatable, axis=0), axis=0)
    enough = largest >= want
    width = np.where(enough.any(axis=0), enough.argmax(axis=0) + 1, 0)
    asked = want > 0
    most = np.where(asked, width, 0).max(axis=0, initial=0)
    agree = ((width == most) | ~asked).all(axis=0) & (enough[-1] | ~asked).all(axis=0)
    return np.maximum(most, 1), agree


def _first_set(room: Ints, want: Ints, size: int) -> tuple[Bools, Bools]:
    """The first set of `size` zones, by number, that together have everything."""
    zones, count = room.shape[0], want.shape[1]
    chosen = np.zeros((zones, count), dtype=np.bool_)
    met = np.zeros(count, dtype=np.bool_)
    for tried, some in enumerate(combinations(range(zones), size)):
        if met.all() or tried >= _MOST_SETS:
            break
        fits = (room[list(some)].sum(axis=0) >= want).all(axis=0) & ~met
        chosen[list(some)] |= fits
        met |= fits
    return chosen, met


def _greedy(room: Ints, want: Ints) -> tuple[Bools, Bools]:
    """Zones by how much of the unmet need they cover, until it is met."""
    zones, count = room.shape[0], want.shape[1]
    chosen = np.zeros((zones, count), dtype=np.bool_)
    left = want.copy()
    nodes: Ints = np.arange(count, dtype=np.int64)
    for _ in range(zones):
        covers = np.minimum(room, left).sum(axis=1)
        covers[chosen] = -1
        best = covers.argmax(axis=0)
        take = (left > 0).any(axis=0) & (covers[best, nodes] > 0)
        chosen[best[take], nodes[take]] = True
        left = np.where(take, np.maximum(left - room[best, :, nodes].T, 0), left)
    met = np.ones(count, dtype=np.bool_)
    for row in left:
        met &= row <= 0
    return chosen, met


def _draw(room: Ints, chosen: Bools, want: Ints) -> Ints:
    """[Z, A, n] what is taken of each zone, the lowest first."""
    taken = np.zeros_like(room)
    left = want.copy()
    for zone in range(room.shape[0]):
        take = np.minimum(np.maximum(room[zone], 0), left) * chosen[zone]
        taken[zone] = take
        left = left - take
    return taken

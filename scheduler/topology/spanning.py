"""A gang that fits in no single domain: the fewest domains that hold it together.

For equal pods the fewest are found exactly: domains are taken by how much they hold, the largest
first, and the last one is the smallest that holds the rest. For several classes the sums give a
lower bound; from there on sets are tried by size, all sets where there are few domains, otherwise
the emptiest ones. The last answer is always all domains, the emptiest first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from ..snapshot import Bools, Floats, Ints
from .capacity import Capacity
from .tree import Tree

#: Up to this many domains, all sets of a size are tried.
_FEW = 10


def spans(
    capacity: Capacity, tree: Tree, level: int, mask: Bools, place: Ints, used: Bools
) -> Iterator[list[int]]:
    """Domains of `level` to fill one after the other, the best set first.

    `mask` [N] is the wider domain to stay in, `place` and `used` [domains] the order of equals and
    the domains that the gang holds already: those cost nothing and come first.
    """
    held = [tree.sums(level, np.where(mask, copies, 0)) for copies, _ in capacity.pods]
    there = np.logical_or.reduce([amount > 0 for amount in held])
    domains = np.flatnonzero(there)
    emptiest: list[int] = domains[np.lexsort((-place[domains], -held[0][domains]))].tolist()
    if len(held) == 1:
        room, pods = held[0], capacity.pods[0][1]
        best = _fewest(room, pods, emptiest, [d for d in emptiest if used[d]])
        yield best
        if capacity.exact:
            return
        yield from _growing(best, emptiest)
    else:
        yield from _sets(capacity, tree, level, mask, held, emptiest)
    yield emptiest


def count_needed(room: Floats, pods: int, above: Ints, wider: int) -> Ints:
    """[wider domains] the fewest domains of each that hold `pods` equal pods."""
    order = np.lexsort((-room, above))
    amount, group = room[order], above[order]
    total = np.cumsum(amount)
    start = np.searchsorted(group, np.arange(wider), side="left")
    before = np.concatenate(([0.0], total))[start]
    mine = total - amount - before[group]
    needed = (mine < pods) & (amount > 0)
    return np.bincount(group[needed], minlength=wider)


def _fewest(room: Floats, pods: int, emptiest: list[int], used: list[int]) -> list[int]:
    chosen: list[int] = []
    left = float(pods)
    rest = used + [d for d in emptiest if d not in set(used)] if used else emptiest
    free = len(used)
    for at, domain in enumerate(rest):
        if left <= 0:
            break
        if room[domain] >= left and at >= free:
            chosen.append(_smallest(room, left, rest[at:]))
            break
        chosen.append(domain)
        left -= room[domain]
    return chosen


def _smallest(room: Floats, left: float, domains: list[int]) -> int:
    """The tightest domain that holds what is left; of equals the first in the list."""
    fitting = [d for d in domains if room[d] >= left]
    return min(fitting, key=lambda d: float(room[d]))


def _growing(best: list[int], emptiest: list[int]) -> Iterator[list[int]]:
    """Larger sets, by doubling what is added."""
    rest = [d for d in emptiest if d not in set(best)]
    more = 1
    while more < len(rest):
        yield best + rest[:more]
        more *= 2


def _sets(
    capacity: Capacity,
    tree: Tree,
    level: int,
    mask: Bools,
    held: list[Floats],
    emptiest: list[int],
) -> Iterator[list[int]]:
    amounts = [(room, float(pods)) for room, (_, pods) in zip(held, capacity.pods, strict=True)]
    amounts += [
        (tree.sums(level, np.where(mask, free, 0)), want - 1e-6) for free, want in capacity.need
    ]
    rank = {d: i for i, d in enumerate(emptiest)}
    least = max((_lower_bound(room[emptiest], want) for room, want in amounts), default=1)
    if len(emptiest) > _FEW:
        size = max(least, 1)
        while size < len(emptiest):
            yield emptiest[:size]
            size = size + 1 if size < _FEW else size * 2
        return
    for size in range(max(least, 1), len(emptiest)):
        fitting = [
            chosen
            for chosen in combinations(emptiest, size)
            if all(float(room[list(chosen)].sum()) >= want for room, want in amounts)
        ]
        first = amounts[0][0]
        fitting.sort(key=lambda c: (float(first[list(c)].sum()), [rank[d] for d in c]))
        yield from map(list, fitting)


def _lower_bound(room: Floats, want: float) -> int:
    """How many of the largest amounts it takes to reach `want`."""
    total = np.cumsum(np.sort(room)[::-1])
    return int(np.searchsorted(total, want, side="left")) + 1

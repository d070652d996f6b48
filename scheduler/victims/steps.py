"""Which pods of a gang go together: its surplus one by one, then the rest as a whole.

Source: KAI 0.17, tasks to evict. The children of a set are looked at in the reverse of the order in
which they are filled; what remains of the gang is a candidate again, with its reduced state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..orders.subgroup_order import GangTree, Standing
from ..shares.row import Amounts


class Step(NamedTuple):
    """Pods of one gang that are evicted together."""

    gang: int
    positions: tuple[int, ...]  # see Held.order, ascending in each leaf
    leaves: tuple[int, ...]  # the leaf of each pod
    core: bool  # the gang's minimum goes with it
    amount: Amounts  # what its queue gets back


def pods_to_evict(tree: GangTree, held: Sequence[int]) -> tuple[list[tuple[int, int]], bool]:
    """The next step as (local leaf row, pods), and whether it takes the gang's minimum.

    `held` counts the pods of each local leaf row. Empty where the gang holds nothing.
    """
    at = Standing(tree, held, [0] * len(held))
    if at.count[0] > 0 or tree.minimum[0] == 0:
        surplus = _surplus(at, 0, held)
        if surplus:
            return surplus, False
    everything = [(row, held[row]) for row in range(len(held)) if tree.leaf[row] and held[row] > 0]
    return everything, True


def _surplus(at: Standing, row: int, held: Sequence[int]) -> list[tuple[int, int]]:
    """One pod above a leaf's minimum, else the last child that a set can do without."""
    tree = at.tree
    if tree.leaf[row]:
        return [(row, 1)] if held[row] > tree.minimum[row] else []
    children = at.order(row)[::-1]
    for kid in children:
        found = _surplus(at, kid, held)
        if found:
            return found
    if at.count[row] > tree.minimum[row]:
        for kid in children:
            found = _all_of(tree, kid, held)
            if found:
                return found
    return []


def _all_of(tree: GangTree, row: int, held: Sequence[int]) -> list[tuple[int, int]]:
    picked: list[tuple[int, int]] = []
    open_ = [row]
    while open_:
        at = open_.pop()
        if tree.leaf[at] and held[at] > 0:
            picked.append((at, held[at]))
        open_.extend(reversed(tree.children[at]))
    return picked

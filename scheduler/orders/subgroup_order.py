"""Which pods of a gang are tried next: all that its minimum needs, then one step of growth.

Source: KAI 0.17, tasks to allocate and the subgroup order plugin. An attempt is all-or-nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..snapshot import SubGroups


@dataclass(frozen=True, slots=True)
class GangTree:
    """The subgroups of one gang as plain numbers. Rows are local: `base` + local = SubGroups row.

    Local row 0 is the root. `children[i]` are local rows in name order, empty for a leaf.
    """

    base: int
    minimum: tuple[int, ...]
    leaf: tuple[bool, ...]
    children: tuple[tuple[int, ...], ...]


def gang_tree(subgroups: SubGroups, root: int, count: int) -> GangTree:
    """The tree of the gang whose `count` contiguous rows start at `root`."""
    rows = slice(root, root + count)
    parent: list[int] = subgroups.parent[rows].tolist()
    rank: list[int] = subgroups.rank[rows].tolist()
    children: list[list[int]] = [[] for _ in range(count)]
    for row in sorted(range(1, count), key=rank.__getitem__):
        children[parent[row] - root].append(row)
    return GangTree(
        base=root,
        minimum=tuple(subgroups.minimum[rows].tolist()),
        leaf=tuple(subgroups.leaf[rows].tolist()),
        children=tuple(map(tuple, children)),
    )


class Standing:
    """Where each subgroup of a gang stands: what it holds, whether that is enough, could it be.

    `held` and `waiting` count per local leaf row the pods that hold a place (nominated included)
    and the pending ones.
    """

    __slots__ = ("able", "count", "tree", "yields")

    def __init__(self, tree: GangTree, held: Sequence[int], waiting: Sequence[int]) -> None:
        self.tree = tree
        size = len(tree.leaf)
        #: Pods held by a leaf, satisfied direct children of a set.
        self.count = [0] * size
        #: Whether the subgroup meets its minimum once all its pending pods are placed.
        self.able = [False] * size
        #: Whether the subgroup has anything to add now.
        self.yields = [False] * size
        for row in range(size - 1, -1, -1):  # children come after their parent
            if tree.leaf[row]:
                self.count[row] = held[row]
                self.able[row] = held[row] + waiting[row] >= tree.minimum[row]
                self.yields[row] = self.able[row] and waiting[row] > 0
            else:
                kids = tree.children[row]
                self.count[row] = sum(self.met(kid) for kid in kids)
                self.able[row] = sum(self.able[kid] for kid in kids) >= tree.minimum[row]
                self.yields[row] = self.able[row] and (
                    not self.met(row) or any(self.yields[kid] for kid in kids)
                )

    def met(self, row: int) -> bool:
        return self.count[row] >= self.tree.minimum[row]

    def order(self, row: int) -> list[int]:
        """The children of a set, the neediest first, equals by name."""
        return sorted(self.tree.children[row], key=self._need_key)

    def _need_key(self, row: int) -> tuple[int, float]:
        """Below the minimum, then by how full, then those without a minimum by what they hold."""
        count, minimum = self.count[row], self.tree.minimum[row]
        if count < minimum:
            return 0, 0.0
        return (1, count / minimum) if minimum > 0 else (2, float(count))


def tasks_to_allocate(
    tree: GangTree, held: Sequence[int], waiting: Sequence[int]
) -> list[tuple[int, int]]:
    """What the next attempt places: (local leaf row, number of its best pending pods), in order.

    Empty where nothing can be added. A gang below its minimum asks for all that is missing; one
    that holds it asks for one more pod, or for the whole minimum of one optional subgroup. A
    subgroup that cannot reach its minimum would take room and complete nothing: it is passed over.
    """
    at = Standing(tree, held, waiting)
    picked: list[tuple[int, int]] = []
    open_ = [0] if at.yields[0] else []
    while open_:  # a stack and no recursion: trees may be deep
        row = open_.pop()
        if tree.leaf[row]:
            picked.append((row, max(tree.minimum[row] - held[row], 1)))
        elif at.met(row):
            open_.append(next(kid for kid in at.order(row) if at.yields[kid]))
        else:
            able = [kid for kid in at.order(row) if at.able[kid]]
            needed = able[: tree.minimum[row]]
            open_.extend(kid for kid in reversed(needed) if not at.met(kid))
    return picked

"""Which pods of a gang are tried next: all that its minimum needs, then one step of growth.

Source: KAI 0.17, tasks to allocate and the subgroup order plugin. An attempt is all-or-nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from ..snapshot import SubGroups


@dataclass(frozen=True, slots=True)
class GangTree:
    """The subgroups of one gang as plain numbers. Rows are local: `base` + local = SubGroups row.

    Local row 0 is the root. `children[i]` are local rows in name order, empty for a leaf; `parent`
    and `place` say of which row a row is a child, and the how manieth. `asked` is None where all
    grow one pod after the other.
    """

    base: int
    minimum: tuple[int, ...]
    leaf: tuple[bool, ...]
    children: tuple[tuple[int, ...], ...]
    parent: tuple[int, ...]
    place: tuple[int, ...]
    asked: tuple[int, ...] | None = None


def gang_tree(subgroups: SubGroups, root: int, count: int) -> GangTree:
    """The tree of the gang whose `count` contiguous rows start at `root`."""
    rows = slice(root, root + count)
    parent: list[int] = (subgroups.parent[rows] - root).tolist()
    rank: list[int] = subgroups.rank[rows].tolist()
    children: list[list[int]] = [[] for _ in range(count)]
    place = [0] * count
    for row in sorted(range(1, count), key=rank.__getitem__):
        place[row] = len(children[parent[row]])
        children[parent[row]].append(row)
    return GangTree(
        base=root,
        minimum=tuple(subgroups.minimum[rows].tolist()),
        leaf=tuple(subgroups.leaf[rows].tolist()),
        children=tuple(map(tuple, children)),
        parent=tuple(parent),
        place=tuple(place),
        asked=_asked(subgroups, rows),
    )


def _asked(subgroups: SubGroups, rows: slice) -> tuple[int, ...] | None:
    if subgroups.asked is None or bool((subgroups.asked[rows] < 0).all()):
        return None
    return tuple(subgroups.asked[rows].tolist())


_NeedKey = tuple[int, float]
_NO_LEAVES: frozenset[int] = frozenset()


def _growing(
    tree: GangTree, held: Sequence[int], waiting: Sequence[int]
) -> tuple[frozenset[int], frozenset[int]]:
    """The leaves that grow together, and the same where pods of them are still to be made."""
    if tree.asked is None:
        return _NO_LEAVES, _NO_LEAVES
    leaves = frozenset(row for row, asked in enumerate(tree.asked) if asked >= 0)
    whole = all(held[row] + waiting[row] >= tree.asked[row] for row in leaves)
    return leaves, _NO_LEAVES if whole else leaves


class Standing:
    """Where each subgroup of a gang stands: what it holds, whether that is enough, could it be.

    Kept while the gang grows: `place` moves a leaf and its ancestors only, so that a gang with
    thousands of subgroups pays a few heap steps for each pod, not a walk over all of them.
    """

    __slots__ = (
        "_able_kids",
        "_heaps",
        "_short",
        "_yielding",
        "able",
        "count",
        "growing",
        "tree",
        "waiting",
        "yields",
    )

    def __init__(self, tree: GangTree, held: Sequence[int], waiting: Sequence[int]) -> None:
        """`held` and `waiting` count per local leaf row the pods with a place and the pending."""
        self.tree, self.waiting = tree, list(waiting)
        size = len(tree.leaf)
        #: Leaves that grow together, once every pod that was asked for is there.
        self.growing, self._short = _growing(tree, held, waiting)
        for row in self.growing:  # more than that were asked for once, and are about to be ended
            wanted = max(tree.asked[row] if tree.asked else 0, tree.minimum[row])
            self.waiting[row] = max(0, min(self.waiting[row], wanted - held[row]))
        #: Pods held by a leaf, satisfied direct children of a set.
        self.count = [held[row] if tree.leaf[row] else 0 for row in range(size)]
        #: Whether the subgroup meets its minimum once all its pending pods are placed.
        self.able = [False] * size
        #: Whether the subgroup has anything to add now.
        self.yields = [False] * size
        self._able_kids, self._yielding = [0] * size, [0] * size
        self._heaps: dict[int, list[tuple[_NeedKey, int, int]]] = {}
        for row in range(size - 1, -1, -1):  # children come after their parent
            self._judge(row)
            if row:
                self.count[tree.parent[row]] += self._tell_parent(row, (False, False, False))

    def met(self, row: int) -> bool:
        return self.count[row] >= self.tree.minimum[row]

    def order(self, row: int) -> list[int]:
        """The children of a set, the neediest first, equals by name."""
        return sorted(self.tree.children[row], key=self._need_key)

    def neediest(self, row: int) -> int:
        """The first child of a set, in order, that has anything to add."""
        heap = self._heaps.get(row)
        if heap is None:
            kids = self.tree.children[row]
            heap = self._heaps[row] = [(self._need_key(k), i, k) for i, k in enumerate(kids)]
            heapify(heap)
        while True:
            key, _, kid = heap[0]
            if self.yields[kid] and key == self._need_key(kid):
                return kid
            heappop(heap)  # said before the child last moved, or the child has nothing more

    def place(self, leaf: int, pods: int) -> None:
        """Some of a leaf's pending pods got their place."""
        self.waiting[leaf] -= pods
        row, more = leaf, pods
        while True:
            before = self.met(row), self.able[row], self.yields[row]
            self.count[row] += more
            self._judge(row)
            if row == 0:
                return
            parent = self.tree.parent[row]
            more = self._tell_parent(row, before)
            if parent in self._heaps:
                entry = (self._need_key(row), self.tree.place[row], row)
                heappush(self._heaps[parent], entry)
            row = parent

    def _judge(self, row: int) -> None:
        minimum = self.tree.minimum[row]
        if self.tree.leaf[row]:
            self.able[row] = self.count[row] + self.waiting[row] >= minimum
            grows = not (row in self._short and self.count[row] >= minimum)
            self.yields[row] = self.able[row] and self.waiting[row] > 0 and grows
        else:
            self.able[row] = self._able_kids[row] >= minimum
            more = self.count[row] < minimum or self._yielding[row] > 0
            self.yields[row] = self.able[row] and more

    def _tell_parent(self, row: int, before: tuple[bool, bool, bool]) -> int:
        """Counts a child anew, `before` being what it was; answers how many more are met."""
        met, able, yields = before
        parent = self.tree.parent[row]
        self._able_kids[parent] += self.able[row] - able
        self._yielding[parent] += self.yields[row] - yields
        return self.met(row) - met

    def _need_key(self, row: int) -> _NeedKey:
        """Below the minimum, then by how full, then those without a minimum by what they hold."""
        count, minimum = self.count[row], self.tree.minimum[row]
        if count < minimum:
            return 0, 0.0
        return (1, count / minimum) if minimum > 0 else (2, float(count))


def tasks_to_allocate(at: Standing) -> list[tuple[int, int]]:
    """What the next attempt places: (local leaf row, number of its best pending pods), in order.

    Empty where nothing can be added. A gang below its minimum asks for all that is missing; one
    that holds it asks for one more pod, or for the whole minimum of one optional subgroup, or, of
    leaves that grow together, for all that waits. A subgroup that cannot reach its minimum would
    take room and complete nothing: it is passed over.
    """
    tree = at.tree
    picked: list[tuple[int, int]] = []
    open_ = [0] if at.yields[0] else []
    while open_:  # a stack and no recursion: trees may be deep
        row = open_.pop()
        if tree.leaf[row]:
            picked.append((row, max(tree.minimum[row] - at.count[row], 1)))
        elif at.met(row):
            open_.append(at.neediest(row))
        else:
            able = [kid for kid in at.order(row) if at.able[kid]]
            needed = able[: tree.minimum[row]]
            open_.extend(kid for kid in reversed(needed) if not at.met(kid))
    if at.growing and at.met(0) and any(row in at.growing for row, _ in picked):
        rows = sorted(at.growing, key=lambda row: (tree.parent[row], tree.place[row]))
        return [(row, at.waiting[row]) for row in rows if at.yields[row]]
    return picked

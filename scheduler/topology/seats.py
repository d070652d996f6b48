"""Where the pods of constrained gangs are: what ties the rest of them to a domain.

Every leaf that some constraint covers has a count per node. The pods of a set are those of all its
leaves, also of leaves that ask for nothing now.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..snapshot import ALLOCATED, Codes, Ints, SubGroups, Tasks


class Seats:
    """Pods per (leaf, node) that hold a place or are promised one."""

    def __init__(self, subgroups: SubGroups, tasks: Tasks, node_of: Codes, rows: Iterable[int]):
        """`rows` are the constrained subgroups, `node_of` [T] the ledger's nodes of the pods."""
        parent: list[int] = subgroups.parent.tolist()
        bound = np.zeros(len(parent), dtype=np.bool_)
        bound[list(rows)] = True
        for row, above in enumerate(parent):  # parents come first
            if above >= 0:
                bound[row] |= bound[above]
        self._bound: list[bool] = bound.tolist()
        #: Per constrained row and below it: node -> pods.
        self._at: dict[int, dict[int, int]] = {}
        self._parent = parent
        there = np.isin(tasks.state, [int(s) for s in ALLOCATED]) & (tasks.leaf >= 0)
        there &= node_of >= 0
        there[there] = bound[tasks.leaf[there]]
        for leaf, node in zip(tasks.leaf[there].tolist(), node_of[there].tolist(), strict=True):
            self.move(leaf, node, 1)

    def tracks(self, leaf: int) -> bool:
        """Whether any constraint covers the leaf."""
        return self._bound[leaf]

    def move(self, leaf: int, node: int, pods: int) -> None:
        """Pods of a leaf come to a node; negative: leave it."""
        row = leaf
        while row >= 0 and self._bound[row]:
            at = self._at.setdefault(row, {})
            left = at.get(node, 0) + pods
            if left:
                at[node] = left
            else:
                at.pop(node, None)
            row = self._parent[row]

    def of(self, row: int, nodes: int) -> Ints | None:
        """[N] pods of a subgroup and all below it; None where it has none."""
        at = self._at.get(row)
        if not at:
            return None
        count = np.zeros(nodes, dtype=np.int64)
        count[list(at.keys())] = list(at.values())
        return count

    def empty(self, row: int) -> bool:
        """Whether no pod of the subgroup has a place."""
        return not self._at.get(row)

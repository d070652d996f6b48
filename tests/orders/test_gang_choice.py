"""Which pods of a gang are tried next, and when a gang may be tried at all."""

from __future__ import annotations

import numpy as np
import pytest

from kai_ray.scheduler.gang_state import elastic_state, met
from kai_ray.scheduler.orders.job_order import job_key
from kai_ray.scheduler.orders.subgroup_order import (
    GangTree,
    Standing,
    gang_tree,
    tasks_to_allocate,
)
from kai_ray.scheduler.orders.task_order import task_order
from kai_ray.scheduler.snapshot import SubGroups, Tasks


def subgroups(*trees: tuple) -> SubGroups:
    """Rows of gangs given as nested (minimum, children); minimum None = all children."""
    rows: list[tuple[int, int, bool, int, int]] = []

    def add(gang: int, tree: object, parent: int, rank: int) -> None:
        row = len(rows)
        if isinstance(tree, int):
            rows.append((gang, parent, True, tree, rank))
            return
        minimum, children = tree  # type: ignore[misc]
        rows.append((gang, parent, False, len(children) if minimum is None else minimum, rank))
        for place, name in enumerate(sorted(children)):
            add(gang, children[name], row, place)

    for gang, tree in enumerate(trees):
        add(gang, tree, -1, 0)
    gang, parent, leaf, minimum, rank = (np.array(column) for column in zip(*rows, strict=True))
    codes = [column.astype(np.int32) for column in (gang, parent, minimum, rank)]
    return SubGroups(
        gang=codes[0], parent=codes[1], leaf=leaf.astype(bool), minimum=codes[2], rank=codes[3]
    )


def only(tree: tuple) -> GangTree:
    rows = subgroups(tree)
    return gang_tree(rows, 0, len(rows.gang))


def choose(tree: tuple, held: list[int], waiting: list[int]) -> list[tuple[int, int]]:
    """`held` and `waiting` per leaf, in the order of rows; answers with leaf numbers."""
    shape = only(tree)
    leaves = [row for row, leaf in enumerate(shape.leaf) if leaf]
    counts = [[0] * len(shape.leaf) for _ in range(2)]
    for row, a, b in zip(leaves, held, waiting, strict=True):
        counts[0][row], counts[1][row] = a, b
    standing = Standing(shape, *counts)
    return [(leaves.index(row), n) for row, n in tasks_to_allocate(standing)]


FOUR = {"r0": 2, "r1": 2, "r2": 2, "r3": 2}


@pytest.mark.parametrize(
    ("minimum", "held", "waiting", "chosen"),
    [
        pytest.param(None, [0] * 4, [2] * 4, [(0, 2), (1, 2), (2, 2), (3, 2)], id="all"),
        pytest.param(2, [0] * 4, [2] * 4, [(0, 2), (1, 2)], id="two of four, by name"),
        pytest.param(2, [2, 2, 0, 0], [0, 0, 2, 2], [(2, 2)], id="an optional one as a whole"),
        pytest.param(0, [0] * 4, [2] * 4, [(0, 2)], id="none is needed: one at a time"),
        pytest.param(2, [2, 0, 0, 0], [0, 2, 2, 2], [(1, 2), (2, 2)], id="the neediest two"),
        pytest.param(2, [0] * 4, [1, 2, 2, 2], [(1, 2), (2, 2)], id="not one that cannot be whole"),
        pytest.param(2, [2, 2, 0, 0], [0, 0, 1, 2], [(3, 2)], id="an optional one whole or not"),
        pytest.param(2, [2, 2, 0, 0], [0, 0, 1, 1], [], id="no optional one could be whole"),
        pytest.param(None, [2] * 4, [0] * 4, [], id="nothing waits"),
        pytest.param(None, [3, 2, 2, 2], [1, 1, 0, 0], [(1, 1)], id="the emptiest grows"),
        pytest.param(None, [1, 2, 2, 2], [3, 3, 3, 3], [(0, 1)], id="what was lost comes back"),
    ],
)
def test_k_of_n(
    minimum: int | None, held: list[int], waiting: list[int], chosen: list[tuple[int, int]]
) -> None:
    assert choose((minimum, FOUR), held, waiting) == chosen


def test_a_flat_gang_takes_its_minimum_and_then_one_by_one() -> None:
    assert choose((None, {"default": 3}), [0], [5]) == [(0, 3)]
    assert choose((None, {"default": 3}), [3], [2]) == [(0, 1)]
    assert choose((None, {"default": 0}), [0], [3]) == [(0, 1)]


def test_sets_inside_sets() -> None:
    tree = (None, {"ab": (1, {"a": 1, "b": 1}), "cd": (None, {"c": 1, "d": 1})})
    assert choose(tree, [0, 0, 0, 0], [1, 1, 1, 1]) == [(0, 1), (2, 1), (3, 1)]
    # All satisfied: `ab` holds two of one, `cd` two of two, so `cd` grows first.
    assert choose(tree, [2, 1, 1, 1], [2, 0, 2, 0]) == [(2, 1)]
    assert choose(tree, [2, 1, 3, 1], [2, 0, 0, 0]) == [(0, 1)]


def test_a_very_deep_tree_is_no_trouble() -> None:
    tree: tuple = (None, {"leaf": 2})
    for _ in range(900):
        tree = (None, {"set": tree})
    assert choose(tree, [0], [3]) == [(0, 2)]
    assert choose(tree, [2], [1]) == [(0, 1)]
    rows = subgroups(tree)
    counts = np.zeros(len(rows.gang), np.int64)
    assert not met(rows, counts)[0]
    counts[-1] = 2
    assert met(rows, counts)[0]


def test_those_without_a_minimum_come_last() -> None:
    tree = (None, {"extra": 0, "workers": 2})
    assert choose(tree, [0, 2], [4, 1]) == [(1, 1)]
    assert choose(tree, [0, 3], [4, 0]) == [(0, 1)]


def test_minimum_met_level_by_level() -> None:
    rows = subgroups(
        (2, FOUR),
        (None, {"default": 3}),
        (5, FOUR),
        (None, {"default": 0}),
        (None, {"ab": (1, {"a": 1, "b": 1}), "cd": (None, {"c": 1, "d": 1})}),
    )
    per_gang = [0, 2, 2, 1, 0], [0, 2], [0, 9, 9, 9, 9], [0, 0], [0, 0, 1, 0, 0, 1, 1]
    counts = np.concatenate(per_gang)
    roots = np.flatnonzero(rows.parent < 0)
    assert met(rows, counts)[roots].tolist() == [True, False, False, True, True]


def test_elastic_state_counts_every_leaf() -> None:
    rows = subgroups(*[(1, {"a": 1, "b": 2})] * 4)
    counts = np.concatenate(([0, 1, 0], [0, 1, 2], [0, 2, 2], [0, 3, 1]))
    assert elastic_state(rows, 4, counts).tolist() == [0, 1, 2, 0]


def test_gangs_of_a_queue() -> None:
    keys = {
        "urgent": job_key(100, 2, 9.0, 9),
        "incomplete": job_key(50, 0, 9.0, 8),
        "older": job_key(50, 1, 1.0, 7),
        "named a": job_key(50, 1, 2.0, 1),
        "named b": job_key(50, 1, 2.0, 2),
        "growing": job_key(50, 2, 0.0, 0),
    }
    assert sorted(keys, key=keys.__getitem__) == list(keys)


def test_pods_of_a_leaf() -> None:
    none = np.iinfo(np.int64).min
    wanted = [
        (0, none, 9.0, 9),  # the head, whatever its age
        (1, 2**62, 9.0, 8),
        (1, 1, 9.0, 7),
        (1, -5, 9.0, 6),  # any priority goes before none
        (1, none, 1.0, 5),
        (1, none, 2.0, 3),
        (1, none, 2.0, 4),
    ]
    mixed = [wanted[i] for i in (5, 3, 0, 6, 2, 4, 1)]
    count = len(mixed)
    role, priority, created, rank = (np.array(column) for column in zip(*mixed, strict=True))
    same = np.zeros(count, np.int32)
    tasks = Tasks(
        gang=same,
        leaf=same,
        klass=same,
        state=same.astype(np.int8),
        node=same - 1,
        role=role.astype(np.int8),
        task_priority=priority.astype(np.int64),
        created_s=created.astype(float),
        rank=rank.astype(np.int32),
        nominated=same - 1,
    )
    order = task_order(tasks, np.arange(count, dtype=np.int32))
    assert [mixed[i] for i in order] == wanted

"""What is asked for together grows together: all that waits, or nothing."""

from __future__ import annotations

import numpy as np
import pytest

from kai_ray.scheduler.orders.subgroup_order import Standing, gang_tree, tasks_to_allocate
from kai_ray.scheduler.snapshot import SubGroups

HEAD, CPU, GPU, SUBMITTER = 1, 2, 3, 4


def ray_cluster(asked: dict[int, int], least: tuple[int, int] = (1, 1)) -> SubGroups:
    """A head, two worker groups of which `least` pods are the minimum, an optional submitter."""
    column = np.full(5, -1)
    for row, pods in asked.items():
        column[row] = pods
    codes = [[0] * 5, [-1, 0, 0, 0, 0], [4, 1, *least, 0], [0, 2, 1, 3, 4], column]
    gang, parent, minimum, rank, wanted = (np.array(c, np.int32) for c in codes)
    leaf = np.array([False, True, True, True, True])
    return SubGroups(gang, parent, leaf, minimum, rank, asked=wanted)


def choose(rows: SubGroups, held: list[int], waiting: list[int]) -> dict[int, int]:
    standing = Standing(gang_tree(rows, 0, 5), held, waiting)
    return dict(tasks_to_allocate(standing))


@pytest.mark.parametrize(
    ("asked", "held", "waiting", "chosen"),
    [
        pytest.param(
            {CPU: 3, GPU: 4},
            [0, 0, 0, 0, 0],
            [0, 1, 3, 4, 0],
            {HEAD: 1, CPU: 1, GPU: 1},
            id="the start asks for the minimum only",
        ),
        pytest.param(
            {CPU: 3, GPU: 4},
            [0, 1, 1, 1, 0],
            [0, 0, 2, 3, 0],
            {CPU: 2, GPU: 3},
            id="then all groups grow in one attempt",
        ),
        pytest.param(
            {CPU: 3, GPU: 4},
            [0, 1, 1, 1, 0],
            [0, 0, 2, 2, 0],
            {},
            id="a pod that is still to be made is waited for",
        ),
        pytest.param(
            {CPU: 3, GPU: 4},
            [0, 1, 1, 1, 0],
            [0, 0, 2, 2, 1],
            {SUBMITTER: 1},
            id="but others do not wait for it",
        ),
        pytest.param(
            {CPU: 1, GPU: 4},
            [0, 1, 1, 0, 0],
            [0, 0, 0, 2, 0],
            {GPU: 1},
            id="what the minimum lost comes back first",
        ),
        pytest.param(
            {CPU: 1, GPU: 2},
            [0, 1, 1, 1, 0],
            [0, 0, 3, 4, 0],
            {GPU: 1},
            id="no more than is asked for now, of pods that once were",
        ),
        pytest.param(
            {},
            [0, 1, 1, 1, 0],
            [0, 0, 2, 3, 0],
            {CPU: 1},
            id="where nobody says so, one pod after the other",
        ),
    ],
)
def test_growth(
    asked: dict[int, int], held: list[int], waiting: list[int], chosen: dict[int, int]
) -> None:
    assert choose(ray_cluster(asked), held, waiting) == chosen


def test_growth_goes_on_after_it_was_granted() -> None:
    rows = ray_cluster({CPU: 3, GPU: 2})
    standing = Standing(gang_tree(rows, 0, 5), [0, 1, 1, 1, 0], [0, 0, 2, 1, 1])
    for leaf, pods in tasks_to_allocate(standing):
        standing.place(leaf, pods)
    assert tasks_to_allocate(standing) == [(SUBMITTER, 1)]

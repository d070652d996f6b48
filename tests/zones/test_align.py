"""The vectors of the alignment rules: two cells of 4 CPUs and 1 GPU each unless said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.scheduler.zones.align import align, copies
from kai_ray.scheduler.zones.facts import Unit, ZonePolicy

SINGLE, RESTRICTED = ZonePolicy.SINGLE, ZonePolicy.RESTRICTED
BEST, NONE = ZonePolicy.BEST_EFFORT, ZonePolicy.NONE
TWO = [[4000, 1], [4000, 1]]


def on_one_node(
    policy: ZonePolicy, *units: Unit, free: list[list[int]] = TWO, whole: list[list[int]] = TWO
) -> tuple[bool, int, list[int]]:
    """(fine, span, zones drawn from)."""
    available, allocatable = (np.array(x, dtype=np.int64)[:, :, None] for x in (free, whole))
    aware = np.ones((available.shape[1], 1), dtype=bool)
    found = align(available, allocatable, aware, np.array([int(policy)]), units)
    used = np.flatnonzero(found.drawn[:, :, 0].any(axis=1)).tolist()
    return bool(found.fine[0]), int(found.span[0]), used


@pytest.mark.parametrize(
    ("policy", "want", "fine", "span", "zones"),
    [
        (SINGLE, (4000, 1), True, 1, [0]),
        (SINGLE, (6000, 1), False, 0, []),
        (RESTRICTED, (6000, 1), False, 0, []),  # CPUs need two cells, the GPU one
        (RESTRICTED, (6000, 2), True, 2, [0, 1]),
        (BEST, (6000, 1), True, 2, [0, 1]),
        (SINGLE, (0, 1), True, 1, [0]),  # 3500m: no whole CPUs, only the GPU is aligned
        (RESTRICTED, (9000, 0), False, 0, []),
        (BEST, (9000, 0), False, 0, []),
        (RESTRICTED, (0, 0), True, 1, []),
        (SINGLE, (0, 0), True, 1, []),
    ],
)
def test_recorded_rules(
    policy: ZonePolicy, want: tuple[int, int], fine: bool, span: int, zones: list[int]
) -> None:
    assert on_one_node(policy, Unit(want)) == (fine, span, zones)


def test_the_lowest_cell_that_has_everything() -> None:
    assert on_one_node(SINGLE, Unit((3000, 1)), free=[[4000, 0], [3000, 1]]) == (True, 1, [1])


def test_restricted_counts_cells_by_what_they_could_hold_not_by_what_is_free() -> None:
    free = [[2000, 1], [2000, 1]]
    assert on_one_node(RESTRICTED, Unit((3000, 0)), free=free) == (False, 0, [])
    assert on_one_node(BEST, Unit((3000, 0)), free=free) == (True, 2, [0, 1])


def test_restricted_takes_the_first_set_that_has_everything() -> None:
    whole = [[4000, 1]] * 3
    free = [[1000, 1], [4000, 1], [4000, 1]]
    found = on_one_node(RESTRICTED, Unit((6000, 2)), free=free, whole=whole)
    assert found == (True, 2, [1, 2])


def test_containers_share_the_cells_and_init_containers_do_not_hold_them() -> None:
    each = Unit((3000, 0))
    assert on_one_node(SINGLE, each, each) == (True, 2, [0, 1])
    assert on_one_node(SINGLE, each, each, each)[0] is False
    init = Unit((4000, 1), serial=True)
    assert on_one_node(SINGLE, init, init, each, each) == (True, 2, [0, 1])


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=5),
    st.tuples(st.integers(0, 8), st.integers(0, 4)),
    st.sampled_from([BEST, RESTRICTED, SINGLE]),
    st.integers(0, 3),
)
def test_what_is_drawn_is_there_and_is_what_was_asked(
    cells: list[tuple[int, int]], want: tuple[int, int], policy: ZonePolicy, used: int
) -> None:
    whole = [list(cell) for cell in cells]
    free = [[max(a - used, 0), b] for a, b in cells]
    available, allocatable = (np.array(x, dtype=np.int64)[:, :, None] for x in (free, whole))
    aware = np.ones((2, 1), dtype=bool)
    units = (Unit(want),)
    found = align(available, allocatable, aware, np.array([int(policy)]), units)
    drawn = found.drawn[:, :, 0]
    assert (drawn >= 0).all()
    assert (drawn <= available[:, :, 0]).all()
    if found.fine[0]:
        assert drawn.sum(axis=0).tolist() == list(want)
        if policy is SINGLE:
            assert np.count_nonzero(drawn.any(axis=1)) <= 1
    most = copies(available, aware, np.array([int(policy)]), allocatable, units)
    assert (most[0] > 0) or not found.fine[0]
    one_by_one = 0
    while found.fine[0] and one_by_one <= 20:
        one_by_one += 1
        available = available - found.drawn
        found = align(available, allocatable, aware, np.array([int(policy)]), units)
    assert most[0] >= one_by_one
    if policy is SINGLE and any(want):
        assert most[0] == one_by_one

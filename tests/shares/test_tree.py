"""Levels, paths and sums over a tree of queues."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_ray.scheduler.shares.tree import depths, levels, path, roll_up


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    """Parents of queues in any order of rows."""
    count = draw(st.integers(0, 30))
    above = [draw(st.integers(-1, i - 1)) for i in range(count)]
    place = draw(st.permutations(range(count)))
    parent = [-1] * count
    for i, p in enumerate(above):
        parent[place[i]] = -1 if p < 0 else place[p]
    return parent


@settings(deadline=None)
@given(trees())
def test_every_row_is_on_the_level_below_its_parent(parent: list[int]) -> None:
    array = np.array(parent, np.int32)
    assert depths(array).tolist() == [len(path(array, q)) - 1 for q in range(len(parent))]
    found = levels(array)
    assert sorted(q for rows in found for q in rows.tolist()) == list(range(len(parent)))
    for depth, rows in enumerate(found):
        assert (depths(array)[rows] == depth).all()


@settings(deadline=None)
@given(trees())
def test_a_queue_holds_what_its_descendants_hold(parent: list[int]) -> None:
    array = np.array(parent, np.int32)
    own = np.vstack([np.arange(len(parent), dtype=float) + r for r in range(3)])
    total = roll_up(array, own)
    for q in range(len(parent)):
        inside = [x for x in range(len(parent)) if q in path(array, x)]
        assert total[:, q].tolist() == own[:, inside].sum(axis=1).tolist()


@pytest.mark.parametrize("parent", [[0], [1, 0], [-1, 2, 3, 1], [2, 0, 1, -1, 0]])
def test_a_cycle_is_refused(parent: list[int]) -> None:
    with pytest.raises(ValueError, match="cycle"):
        levels(np.array(parent, np.int32))


def test_a_chain_of_many_queues() -> None:
    chain = np.arange(-1, 20_000 - 1, dtype=np.int32)
    assert depths(chain)[-1] == 19_999

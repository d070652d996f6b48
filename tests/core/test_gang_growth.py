"""A gang that grows step by step stands where one looked at anew would stand."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from kai_ray.scheduler import decide
from kai_ray.scheduler.orders.subgroup_order import GangTree, Standing, tasks_to_allocate
from tests.core.world import Job, Node, Pod, World


@st.composite
def trees(draw: st.DrawFn) -> GangTree:
    """Sets and leaves up to three levels; rows in no particular name order."""
    size = draw(st.integers(2, 12))
    parent = [-1, *(draw(st.integers(0, row - 1)) for row in range(1, size))]
    children = [[r for r in range(len(parent)) if parent[r] == p] for p in range(len(parent))]
    children = [draw(st.permutations(kids)) for kids in children]
    place = [0] * len(parent)
    for kids in children:
        for i, kid in enumerate(kids):
            place[kid] = i
    return GangTree(
        base=0,
        minimum=tuple(draw(st.integers(0, 3)) for _ in parent),
        leaf=tuple(not kids for kids in children),
        children=tuple(map(tuple, children)),
        parent=tuple(parent),
        place=tuple(place),
    )


@settings(max_examples=150, deadline=None)
@given(trees(), st.data())
def test_each_step_is_that_of_a_gang_looked_at_anew(tree: GangTree, data: st.DataObject) -> None:
    held = [data.draw(st.integers(0, 3)) if leaf else 0 for leaf in tree.leaf]
    waiting = [data.draw(st.integers(0, 4)) if leaf else 0 for leaf in tree.leaf]
    grown = Standing(tree, held, waiting)
    while picked := tasks_to_allocate(grown):
        assert picked == tasks_to_allocate(Standing(tree, held, waiting))
        for leaf, pods in picked:
            assert 0 < pods <= waiting[leaf]
            held[leaf] += pods
            waiting[leaf] -= pods
            grown.place(leaf, pods)
    anew = Standing(tree, held, waiting)
    assert tasks_to_allocate(anew) == []
    assert (grown.count, grown.able, grown.yields) == (anew.count, anew.able, anew.yields)


def _cpu_s(subgroups: int) -> float:
    names = [f"r{i:05}" for i in range(subgroups)]
    tree = (("", "", 1, False), *((name, "", 1, True) for name in names))
    job = Job("g", [Pod()] * subgroups, tree=tree, leaf_of=tuple(names))
    snapshot = World([Node(f"n{i}") for i in range(subgroups // 8)], [job]).snapshot()
    before = time.process_time()
    assert len(decide(snapshot).bind_task) == subgroups
    return time.process_time() - before


def test_thousands_of_optional_subgroups_start_one_by_one_without_delay() -> None:
    assert _cpu_s(2400) < 10 * _cpu_s(600), "4 times the subgroups: 4 times, not 16"

"""The rules of queues on arrays alone: order by users, layout by class, dismissal, reserves."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_ray.scheduler import DEFAULT, Plan, decide
from kai_ray.scheduler.orders.user_order import seniority
from kai_ray.scheduler.policy import Placement, policy
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import GPU, Layout, Reserve, Snapshot
from tests.core.strategies import worlds


def snapshots() -> st.SearchStrategy[Snapshot]:
    return worlds().map(lambda world: world.snapshot())


def _with_gangs(snapshot: Snapshot, **columns) -> Snapshot:
    return dataclasses.replace(snapshot, gangs=dataclasses.replace(snapshot.gangs, **columns))


@settings(max_examples=40, deadline=None)
@given(snapshots(), st.randoms(use_true_random=False))
def test_users_reorder_equals_only(snapshot: Snapshot, random) -> None:
    usage = np.array([random.choice([0.0, 0.5, 1.0]) for _ in range(snapshot.gangs.count)])
    used = _with_gangs(snapshot, user_usage=usage)
    place = seniority(used.gangs, True)
    for a in range(used.gangs.count):
        for b in range(used.gangs.count):
            if usage[a] < usage[b]:
                assert place[a] < place[b] or not usage.any()
    assert seniority(used.gangs, False) is used.gangs.created_s
    used.validate()
    decide(used)


@settings(max_examples=40, deadline=None)
@given(snapshots())
def test_the_same_usage_for_all_changes_nothing(snapshot: Snapshot) -> None:
    flat = _with_gangs(snapshot, user_usage=np.full(snapshot.gangs.count, 0.25))
    plain, same = decide(snapshot), decide(flat)
    assert plain.bind_task.tolist() == same.bind_task.tolist()
    assert plain.bind_node.tolist() == same.bind_node.tolist()


@settings(max_examples=40, deadline=None)
@given(snapshots())
def test_a_layout_of_the_class_is_the_layout_of_the_policy(snapshot: Snapshot) -> None:
    """All classes that spread under a packing policy go where a spreading policy puts them."""
    rules = tuple(dataclasses.replace(r, layout=Layout.SPREAD) for r in snapshot.classes.rules)
    asked = dataclasses.replace(
        snapshot, classes=dataclasses.replace(snapshot.classes, rules=rules)
    )
    spreading = policy(Placement.SPREAD, Placement.SPREAD)
    packing = dataclasses.replace(DEFAULT, actions=spreading.actions)
    ours, theirs = decide(asked, packing), decide(snapshot, spreading)
    assert ours.bind_task.tolist() == theirs.bind_task.tolist()
    assert ours.bind_node.tolist() == theirs.bind_node.tolist()


@settings(max_examples=40, deadline=None)
@given(snapshots(), st.randoms(use_true_random=False))
def test_who_must_go_goes_as_a_whole_and_nothing_of_it_starts(snapshot: Snapshot, random) -> None:
    reason = int(Reason.MAX_RUN_TIME_REACHED)
    leave = np.array([random.choice([0, reason]) for _ in range(snapshot.gangs.count)])
    leave = leave.astype(np.int32)
    told = _with_gangs(snapshot, leave=leave, refusal=leave)
    told.validate()
    plan, tasks = decide(told), snapshot.tasks
    there = np.isin(tasks.state, [2, 3, 4]) & (tasks.gang >= 0)
    due = set(np.flatnonzero(there & (leave[tasks.gang] != 0)).tolist())
    rows = zip(plan.evict_task.tolist(), plan.evict_reason.tolist(), strict=True)
    gone = [task for task, why in rows if why == reason]
    assert set(gone) == due
    assert len(set(plan.evict_task.tolist())) == plan.evict_task.shape[0]
    assert not set(tasks.gang[plan.bind_task].tolist()) & set(np.flatnonzero(leave).tolist())


@settings(max_examples=50, deadline=None)
@given(snapshots(), st.integers(0, 12), st.integers(0, 5), st.integers(1, 3))
def test_others_leave_the_places_of_a_reserve_free(
    snapshot: Snapshot, gpus: int, which: int, size: int
) -> None:
    """Pods of other queues that start leave as many places as there were, up to the promise."""
    if not snapshot.queues.count:
        return
    keeper = which % snapshot.queues.count
    told = dataclasses.replace(snapshot, reserves=(Reserve(keeper, gpus, size),))
    told.validate()
    plan = decide(told)
    if plan.evict_task.size or _starts_inside(told, plan, keeper):
        return  # what leaves makes room, what starts inside uses it
    assert _places(told, plan, size) >= min(_places(told, Plan(), size), _promised(plan, told))


def _promised(plan: Plan, snapshot: Snapshot) -> int:
    (one,) = snapshot.reserves
    return max(int(one.gpus - plan.allocated[2, one.queue]), 0) // one.size


def _places(snapshot: Snapshot, plan: Plan, size: int) -> int:
    """Places of `size` GPUs on nodes that take pods, once the plan is carried out."""
    tasks, nodes = snapshot.tasks, snapshot.nodes
    free = nodes.allocatable[GPU].copy()
    there = np.isin(tasks.state, [2, 3, 4, 6]) & (tasks.node >= 0)
    gpus = snapshot.classes.request[GPU, tasks.klass]
    np.subtract.at(free, tasks.node[there], gpus[there])
    for rows, at in (
        (plan.bind_task, plan.bind_node),
        (plan.nominate_task, plan.nominate_node),
    ):
        np.subtract.at(free, at, gpus[rows])
    usable = nodes.ready & ~nodes.cordoned
    return int((np.maximum(free, 0)[usable] // size).sum())


def _starts_inside(snapshot: Snapshot, plan: Plan, keeper: int) -> bool:
    parent = snapshot.queues.parent
    rows = np.concatenate([plan.bind_task, plan.nominate_task])
    for queue in set(snapshot.gangs.queue[snapshot.tasks.gang[rows]].tolist()):
        while queue >= 0:
            if queue == keeper:
                return True
            queue = int(parent[queue])
    return False

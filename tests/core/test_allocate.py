"""Gangs get their place all-or-nothing, in order, and grow one pod at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kai_ray.scheduler import DEFAULT, Reason, decide
from tests.core.world import Job, Node, P, Pod, Queue, TaskState, World, X, running


def test_a_gang_never_starts_below_its_minimum() -> None:
    out = World([Node("a", gpus=3)], [Job("g", [Pod()] * 4, minimum=4)]).decide()
    assert out.bound == {}
    assert out.waits["g"].reason is Reason.GANG_DOES_NOT_FIT
    assert (out.waits["g"].placeable, out.waits["g"].wanted) == (3, 4)


def test_an_elastic_gang_grows_beyond_its_minimum_as_far_as_there_is_room() -> None:
    out = World([Node("a", gpus=3)], [Job("g", [Pod()] * 5, minimum=2)]).decide()
    assert len(out.bound) == 3
    assert not out.waits["g"].blocks_start


def test_growth_of_one_gang_does_not_come_before_the_minimum_of_another() -> None:
    jobs = [Job("first", [Pod()] * 4, minimum=1), Job("second", [Pod()] * 3, minimum=3, created=1)]
    out = World([Node("a", gpus=4)], jobs).decide()
    assert sorted(out.bound) == ["first-0", "second-0", "second-1", "second-2"]


def test_a_gang_that_does_not_fit_leaves_its_room_to_the_next() -> None:
    jobs = [Job("large", [Pod()] * 6, minimum=6, priority=90), Job("small", [Pod()] * 4, minimum=4)]
    out = World([Node("a", gpus=4)], jobs).decide()
    assert sorted(out.bound) == [f"small-{i}" for i in range(4)]
    assert out.waits["large"].reason is Reason.GANG_DOES_NOT_FIT


def test_priority_then_age_then_name_decide_who_goes_first() -> None:
    jobs = [
        Job("b"),
        Job("a"),
        Job("older", created=-5),
        Job("urgent", priority=60, created=9),
    ]
    for room, winners in ((1, {"urgent"}), (2, {"urgent", "older"}), (3, {"urgent", "older", "a"})):
        out = World([Node("n", gpus=room)], jobs).decide()
        assert {pod[:-2] for pod in out.bound} == winners


def test_the_head_is_placed_before_the_workers() -> None:
    job = Job("ray", [Pod(gpus=2), Pod(gpus=0, cpu=4000, head=True)], minimum=2)
    out = World([Node("a", gpus=2, cpu=5000)], [job]).decide()
    assert out.plan.bind_task.tolist() == [1, 0]


def test_every_subgroup_must_reach_its_own_minimum() -> None:
    tree = (("", "", 2, False), ("head", "", 1, True), ("workers", "", 2, True))
    job = Job("ray", [Pod()] * 4, tree=tree, leaf_of=("head", "workers", "workers", "workers"))
    assert World([Node("a", gpus=2)], [job]).decide().bound == {}
    assert len(World([Node("a", gpus=3)], [job]).decide().bound) == 3


def test_k_of_n_subgroups_suffice() -> None:
    tree = (
        ("", "", 2, False),
        *((f"r{i}", "", 2, True) for i in range(4)),
    )
    job = Job("k", [Pod()] * 8, tree=tree, leaf_of=tuple(f"r{i // 2}" for i in range(8)))
    out = World([Node("a", gpus=4)], [job]).decide()
    assert sorted(out.bound) == ["k-0", "k-1", "k-2", "k-3"]
    out = World([Node("a", gpus=7)], [job]).decide()
    assert len(out.bound) == 6, "the third subgroup comes as a whole, half of the fourth does not"


def test_nested_sets_are_counted_level_by_level() -> None:
    tree = (
        ("", "", 1, False),
        ("left", "", 2, False),
        ("l0", "left", 1, True),
        ("l1", "left", 1, True),
        ("right", "", 2, False),
        ("r0", "right", 3, True),
        ("r1", "right", 1, True),
    )
    leaves = ("l0", "l1", "r0", "r0", "r0", "r1")
    job = Job("n", [Pod()] * 6, tree=tree, leaf_of=leaves)
    assert sorted(World([Node("a", gpus=2)], [job]).decide().bound) == ["n-0", "n-1"]
    assert World([Node("a", gpus=1)], [job]).decide().bound == {}
    assert len(World([Node("a", gpus=8)], [job]).decide().bound) == 6


def test_a_pod_waits_for_room_that_is_being_released() -> None:
    jobs = [Job("old", [Pod(gpus=8, state=X, node="a")]), Job("new", [Pod(gpus=8)])]
    out = World([Node("a")], jobs).decide()
    assert out.nominated == {"new-0": "a"}
    assert out.waits["new"].reason is Reason.WAITING_FOR_RELEASE


def test_nobody_counts_on_a_pod_that_is_stuck() -> None:
    jobs = [Job("old", [Pod(gpus=8, state=TaskState.STUCK, node="a")]), Job("new", [Pod(gpus=8)])]
    out = World([Node("a")], jobs).decide()
    assert (out.bound, out.nominated) == ({}, {})


def test_a_gang_with_one_pod_in_line_waits_as_a_whole() -> None:
    jobs = [Job("old", [Pod(gpus=4, state=X, node="a")]), Job("new", [Pod(gpus=4)] * 2, minimum=2)]
    out = World([Node("a")], jobs).decide()
    assert out.bound == {}
    assert out.nominated == {"new-0": "a", "new-1": "a"}


def test_growth_in_line_does_not_hold_back_the_minimum() -> None:
    jobs = [Job("old", [Pod(gpus=4, state=X, node="a")]), Job("new", [Pod(gpus=4)] * 2, minimum=1)]
    out = World([Node("a")], jobs).decide()
    assert (out.bound, out.nominated) == ({"new-0": "a"}, {"new-1": "a"})


def test_a_limit_binds_at_every_level() -> None:
    queues = [Queue("dept", gpu_limit=3), Queue("a", "dept"), Queue("b", "dept", gpu_limit=1)]
    jobs = [Job("a", [Pod()] * 2, minimum=2, queue="a"), Job("b", [Pod()] * 2, queue="b")]
    out = World([Node("n")], jobs, queues).decide()
    assert len(out.bound) == 3
    more = Job("c", [Pod()], queue="a", created=1)
    out = World([Node("n")], [*jobs, more], queues).decide()
    assert len(out.bound) == 3
    assert {w.reason for w in out.waits.values()} == {Reason.OVER_LIMIT}


def test_pods_on_their_way_to_another_node_keep_their_part_of_the_limit() -> None:
    queues = [Queue("q", gpu_limit=4)]
    jobs = [Job("moves", [Pod(gpus=2)] * 2, minimum=2, queue="q"), Job("other", queue="q")]
    world = World([Node("n")], jobs, queues)
    assert world.decide().bound == {"moves-0": "n", "moves-1": "n"}  # the limit is used up
    snapshot = world.snapshot()
    state = np.array([TaskState.RELEASING, TaskState.RELEASING, P], dtype=np.int8)
    leaving = replace(snapshot, tasks=replace(snapshot.tasks, state=state))
    assert decide(leaving, DEFAULT).bind_task.tolist() == [2]
    coming = np.array([[0.0, 0.0], [0.0, 0.0], [4.0, 0.0]])
    plan = decide(replace(leaving, coming=coming), DEFAULT)
    assert not plan.bind_task.shape[0]
    assert [w.reason for w in plan.waits] == [Reason.OVER_LIMIT]


def test_what_cannot_be_preempted_stays_within_quota() -> None:
    queues = [Queue("q", gpu_quota=1)]
    jobs = [Job(f"j{i}", preemptible=False, priority=100) for i in range(2)] + [Job("soft")]
    out = World([Node("n")], jobs, queues).decide()
    assert sorted(out.bound) == ["j0-0", "soft-0"]
    assert out.waits["j1"].reason is Reason.NON_PREEMPTIBLE_OVER_QUOTA


def test_siblings_of_equal_right_take_turns() -> None:
    queues = [Queue("x", gpu_quota=0), Queue("y", gpu_quota=0)]
    jobs = [Job(f"{q}{i}", queue=q, created=i) for q in "xy" for i in range(4)]
    out = World([Node("n", gpus=4)], jobs, queues).decide()
    assert sorted(out.bound) == ["x0-0", "x1-0", "y0-0", "y1-0"]


def test_queues_that_let_nothing_start_say_so() -> None:
    queues = [Queue("top"), Queue("off", "top", paused=True), Queue("on", "top")]
    jobs = [Job("lost", queue="nowhere"), Job("inner", queue="top"), Job("held", queue="off")]
    out = World([Node("n")], [*jobs, Job("goes", queue="on")], queues).decide()
    assert list(out.bound) == ["goes-0"]
    assert {name: wait.reason for name, wait in out.waits.items()} == {
        "lost": Reason.QUEUE_NOT_FOUND,
        "inner": Reason.QUEUE_NOT_A_LEAF,
        "held": Reason.QUEUE_PAUSED,
    }


def test_a_gang_without_all_its_pods_is_not_tried() -> None:
    gated = Pod(state=TaskState.GATED)
    jobs = [Job("gated", [Pod(), gated], minimum=2), Job("few", [Pod()], minimum=2)]
    out = World([Node("n")], jobs).decide()
    assert out.bound == {}
    assert out.waits["gated"].reason is Reason.POD_GATED
    assert out.waits["few"].reason is Reason.GANG_INCOMPLETE
    assert (out.waits["few"].placeable, out.waits["few"].wanted) == (1, 2)


def test_a_gang_keeps_what_runs_and_adds_what_is_missing() -> None:
    job = Job("g", [running("a"), running("a"), Pod(), Pod()], minimum=4)
    out = World([Node("a", gpus=4)], [job]).decide()
    assert sorted(out.bound) == ["g-2", "g-3"]


def test_pods_of_other_schedulers_take_their_room() -> None:
    world = World(
        [Node("a", gpus=4)], [Job("other", [running("a", gpus=3)]), Job("mine", [Pod()] * 2)]
    )
    snapshot = world.snapshot()
    snapshot.tasks.gang[0], snapshot.tasks.leaf[0] = -1, -1
    from kai_ray.scheduler import decide

    assert len(decide(snapshot).bind_task) == 1


def test_a_nominated_node_is_preferred_and_a_full_one_is_not() -> None:
    nodes = [Node("a"), Node("b"), Node("c", gpus=0)]
    assert World(nodes, [Job("j", [Pod(nominated="b")])]).decide().bound == {"j-0": "b"}
    assert World(nodes, [Job("j", [Pod(nominated="c")])]).decide().bound == {"j-0": "a"}


def test_an_empty_cluster_an_empty_queue_and_no_work_are_all_fine() -> None:
    assert World([], [Job("j")]).decide().bound == {}
    assert World([Node("a")], []).decide().plan.waits == ()
    assert World([], [], []).decide().bound == {}

"""A gang whose eviction costs it an attempt goes after all that can be suspended, and no sooner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kai_ray.scheduler import Plan, Reason, decide
from kai_ray.scheduler.evictions import evictions
from tests.core.world import Job, Node, Pod, Queue, World, running

OWED = (Queue("q", gpu_quota=4.0), Queue("a", gpu_quota=0), Queue("b", gpu_quota=0))


def asks(gpus: int = 1, **more: object) -> Job:
    return Job("asks", [Pod(gpus=gpus)], created=100.0, **more)  # type: ignore[arg-type]


def plan(world: World, *last: str) -> Plan:
    """The decision while the gangs of these names are of last resort."""
    snapshot = world.snapshot()
    column = np.array([job.name in last for job in world.jobs])
    return decide(replace(snapshot, gangs=replace(snapshot.gangs, last_resort=column)))


def leavers(world: World, *last: str) -> list[str]:
    return [world.pod_names[task] for task in plan(world, *last).evict_task.tolist()]


def two(*queues: str, **more: object) -> list[Job]:
    return [
        Job(f"r{i}", [running("n")], queue=queue, created=float(i), **more)  # type: ignore[arg-type]
        for i, queue in enumerate(queues)
    ]


def test_it_outranks_age_in_its_queue() -> None:
    world = World([Node("n", gpus=2)], [*two("a", "a"), asks()], OWED)
    assert leavers(world) == ["r1-0"]  # the newest
    assert leavers(world, "r1") == ["r0-0"]


def test_it_outranks_the_order_of_queues() -> None:
    """b holds twice what a does and would give first."""
    jobs = [
        Job("big", [running("n", gpus=2)], queue="b", created=0.0),
        Job("small", [running("n")], queue="a", created=0.0),
        asks(),
    ]
    world = World([Node("n", gpus=3)], jobs, OWED)
    assert leavers(world) == ["big-0"]
    assert leavers(world, "big") == ["small-0"]


def test_it_outranks_what_an_earlier_action_would_take() -> None:
    """Reclaim comes before preempt; still one's own lower gang, that can be suspended, goes."""
    jobs = [
        Job("lent", [running("n")], queue="a"),
        Job("low", [running("n")], queue="q", priority=40),
        asks(priority=60),
    ]
    world = World([Node("n", gpus=2)], jobs, OWED)
    assert leavers(world) == ["lent-0"]
    found = plan(world, "lent")
    (one,) = evictions(found)
    assert (world.pod_names[one.task], one.reason) == ("low-0", Reason.PREEMPTED)


def test_it_goes_where_nobody_else_serves() -> None:
    world = World([Node("n", gpus=2)], [*two("a", "a"), asks(gpus=2)], OWED)
    assert leavers(world, "r0", "r1") == ["r1-0", "r0-0"]
    assert sorted(leavers(world, "r1")) == ["r0-0", "r1-0"]


def test_it_goes_alone_where_the_others_are_of_no_use() -> None:
    jobs = [
        Job("use", [running("big", gpus=2)], queue="a", created=1.0),
        Job("other", [running("small")], queue="a", created=9.0),
        asks(gpus=2),
    ]
    world = World([Node("big", gpus=2), Node("small", gpus=1)], jobs, OWED)
    assert leavers(world, "use") == ["use-0"]


def test_its_surplus_goes_like_any_other() -> None:
    jobs = [
        Job("elastic", [running("n")] * 2, 1, "a", created=0.0),
        Job("whole", [running("n")], queue="a", created=9.0),
        asks(),
    ]
    assert leavers(World([Node("n", gpus=3)], jobs, OWED), "elastic") == ["elastic-1"]


def test_it_is_moved_only_where_moving_others_does_not_do() -> None:
    jobs = [
        Job("x", [running("n")], created=0.0),
        Job("y", [running("m")], created=1.0),
        asks(gpus=2),
    ]
    world = World([Node("n", gpus=2), Node("m", gpus=2)], jobs)
    assert leavers(world) == ["y-0"]
    assert leavers(world, "y") == ["x-0"]
    assert leavers(world, "x", "y") == ["y-0"]


@pytest.mark.parametrize("last", [(), ("r0",), ("r1",), ("r0", "r1")])
def test_what_is_protected_stays_protected(last: tuple[str, ...]) -> None:
    jobs = two("a", "a", preemptible=False, priority=100)
    assert leavers(World([Node("n", gpus=2)], [*jobs, asks()], OWED), *last) == []


def test_who_was_served_in_the_first_round_does_not_ask_again() -> None:
    jobs = [*two("a", "a", "a"), asks(), replace(asks(gpus=2), name="more", created=101.0)]
    world = World([Node("n", gpus=3)], jobs, OWED)
    found = plan(world, "r0")
    assert sorted(world.pod_names[t] for t in found.evict_task.tolist()) == ["r0-0", "r1-0", "r2-0"]
    by = {world.pod_names[e.task]: world.jobs[e.beneficiary].name for e in evictions(found)}
    assert by["r0-0"] == "more"

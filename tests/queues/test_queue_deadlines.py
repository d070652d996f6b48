"""What a queue ends: gangs at its maximum run time, and all that runs in it when it is drained."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from tests.control.world import World

from .worlds import annotate, at_work, staying


def test_a_gang_is_warned_and_then_ended_at_the_maximum_run_time_of_its_queue() -> None:
    world = World()
    world.queue("team")
    annotate(world, "team", {L.MAX_RUN_TIME: "1h"})
    world.gang("long", 2, "team")
    at_work(world)
    world.run(3000)
    assert len(world.placed("long")) == 2
    assert "MaxRunTimeNear" not in dict(world.events("long"))
    world.run(500)  # five minutes before the end
    assert "MaxRunTimeNear" in dict(world.events("long"))
    assert world.condition("long", "MaxRunTime")["reason"] == "EndsSoon"
    assert len(world.placed("long")) == 2
    world.run(300)
    assert not staying(world, "long")
    events = dict(world.events("long"))
    assert "MaxRunTimeReached" in events
    assert L.MAX_RUN_TIME_REACHED in world.group("long")["metadata"]["annotations"]


def test_pods_made_again_wait_with_the_reason_until_the_mark_is_taken_off() -> None:
    world = World()
    world.queue("team")
    annotate(world, "team", {L.MAX_RUN_TIME: "10m"})
    world.gang("long", 1, "team")
    at_work(world)
    world.run(700)
    from tests.control import objects

    world.store.create(kinds.POD, objects.pod("long-new", "long", gpus=1))
    world.run(5)
    assert "long-new" not in world.placed()
    assert world.condition("long")["reason"] == "MaxRunTimeReached"
    note = {"metadata": {"annotations": {L.MAX_RUN_TIME_REACHED: None}}}
    world.store.patch(kinds.POD_GROUP, "long", note, "default")
    world.run(5)
    assert "long-new" in world.placed()


@pytest.mark.parametrize(("own", "ends"), [("", True), ("0s", False), ("3h", False)])
def test_a_child_queue_inherits_the_maximum_or_states_its_own(own: str, ends: bool) -> None:
    world = World()
    world.queue("root")
    world.queue("team", "root")
    annotate(world, "root", {L.MAX_RUN_TIME: "1h"})
    if own:
        annotate(world, "team", {L.MAX_RUN_TIME: own})
    world.gang("job", 1, "team")
    at_work(world)
    world.run(3700)
    assert bool(staying(world, "job")) is not ends


def test_the_run_time_goes_on_counting_after_a_restart() -> None:
    world = World()
    world.queue("team")
    annotate(world, "team", {L.MAX_RUN_TIME: "1h"})
    world.gang("job", 1, "team")
    at_work(world)
    world.run(1800)
    world.boot()
    world.run(1700)
    assert staying(world, "job")
    world.run(200)
    assert not staying(world, "job")


def test_a_drained_queue_starts_nothing_and_is_emptied_at_the_deadline() -> None:
    world = World()
    world.queue("root")
    world.queue("team", "root")
    world.queue("other")
    world.gang("old", 2, "team")
    world.gang("elsewhere", 2, "other")
    at_work(world)
    due = rfc3339(world.clock.now() + 600)
    annotate(world, "root", {L.DRAIN_DEADLINE: due})
    world.gang("new", 1, "team")
    world.run(300)
    assert len(world.placed("old")) == 2
    assert not world.placed("new")
    assert world.condition("new")["reason"] == "QueuePaused"
    world.run(400)
    assert not staying(world, "old")
    assert len(world.placed("elsewhere")) == 2
    assert "QueueDrained" in dict(world.events("old"))
    queue: dict[str, Any] = world.store.get(kinds.QUEUE, "root")
    said = {c["type"]: c for c in queue["status"]["conditions"]}
    assert said["Draining"]["reason"] == "DeadlinePassed"


def test_a_queue_that_is_resumed_starts_what_waits() -> None:
    world = World()
    world.queue("team")
    annotate(world, "team", {L.DRAIN_DEADLINE: rfc3339(world.clock.now() + 1)})
    world.gang("job", 1, "team")
    world.run(30)
    assert not world.placed("job")
    annotate(world, "team", {L.DRAIN_DEADLINE: None, L.DRAINED: None})
    world.run(5)
    assert world.placed("job")
    said = {c["type"]: c for c in world.store.get(kinds.QUEUE, "team")["status"]["conditions"]}
    assert said["Draining"]["status"] == "False"

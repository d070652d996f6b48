"""What users see: conditions, events and figures, written when something changed and not else."""

from __future__ import annotations

from kai_ray.cluster import resources as kinds

from . import objects
from .world import World


def _queue(world: World, name: str) -> dict:
    return world.store.get(kinds.QUEUE, name).get("status", {})


def test_a_gang_that_starts_is_scheduled_and_says_when_it_started() -> None:
    world = World()
    world.gang("train", 4)
    world.run(5)
    scheduled = world.condition("train")
    assert (scheduled["status"], scheduled["reason"]) == ("True", "Scheduled")
    assert world.group("train")["metadata"]["annotations"]["kai.scheduler/last-start-timestamp"]
    assert world.group("train")["status"]["resourcesStatus"]["allocated"] == {
        "cpu": "4",
        "nvidia.com/gpu": "4",
    }
    assert ("Scheduled", "4 of 4 pods have a place") in world.events("train")


def test_a_gang_that_gets_back_a_member_has_not_started_again() -> None:
    world = World()
    world.gang("train", 4)
    world.run(5)
    for pod in world.pods():
        name = pod["metadata"]["name"]
        patch = {"status": {"phase": "Running"}}
        world.store.patch(kinds.POD, name, patch, "default", subresource="status")
    world.run(5)
    stamp = "kai.scheduler/last-start-timestamp"
    first = world.group("train")["metadata"]["annotations"][stamp]
    world.store.delete(kinds.POD, "train-03", "default", grace_s=0)
    world.run(5)
    assert world.condition("train")["status"] == "False"
    world.store.create(kinds.POD, objects.pod("train-04", "train"))
    world.run(5)
    assert world.condition("train")["status"] == "True"
    assert world.group("train")["metadata"]["annotations"][stamp] == first


def test_one_write_per_pod_on_the_road_to_its_node() -> None:
    world = World()
    world.gang("train", 4)
    before = {p["metadata"]["name"]: p["metadata"]["resourceVersion"] for p in world.pods()}
    watch = world.store.watch(kinds.POD, resource_version=max(before.values(), key=int))
    world.run(10)
    changes = []
    while (event := watch.next()) is not None:
        changes.append(event)
    assert len(changes) == 4


def test_a_gang_that_waits_says_why_in_conditions_events_and_on_its_pods() -> None:
    world = World(nodes=1)
    world.gang("large", 9)
    world.run(10)
    waiting = world.condition("large")
    assert (waiting["status"], waiting["reason"]) == ("False", "GangDoesNotFit")
    assert "9" in waiting["message"]
    kai = world.group("large")["status"]["schedulingConditions"]
    assert [(c["type"], c["nodePool"], c["transitionID"]) for c in kai] == [
        ("UnschedulableOnNodePool", "default", "1")
    ]
    assert any(reason == "Unschedulable" for reason, _ in world.events("large"))
    for pod in world.pods("large"):
        (told,) = [c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"]
        assert told["status"] == "False"
        assert told["message"].startswith("GangDoesNotFit:")


def test_what_was_said_of_waiting_is_taken_back_after_the_start() -> None:
    world = World(nodes=1)
    world.gang("large", 9)
    world.run(10)
    world.store.create(kinds.NODE, objects.node("node-9"))
    world.run(10)
    assert world.condition("large")["status"] == "True"
    assert "schedulingConditions" not in world.group("large")["status"]


def test_a_gang_that_asks_for_one_try_is_tried_again_only_in_another_node_pool() -> None:
    world = World(nodes=1)
    world.gang("once", 9, schedulingBackoff=1)
    world.run(5)
    world.store.create(kinds.NODE, objects.node("more"))
    world.run(5)
    assert not world.placed("once")
    said = world.condition("once")
    assert said["reason"] == "BackingOff" and "schedulingBackoff" in said["message"]
    status = {"status": {"schedulingConditions": None}}
    world.store.patch(kinds.POD_GROUP, "once", status, "default", subresource="status")
    world.run(5)
    assert len(world.placed("once")) == 9


def test_an_unknown_queue_is_named_and_holds_nobody_up() -> None:
    world = World()
    world.gang("lost", 1, queue="nowhere")
    world.gang("fine", 1)
    world.run(5)
    said = world.condition("lost")
    assert said["reason"] == "QueueNotFound"
    assert "nowhere" in said["message"]
    assert world.placed("fine")
    world.queue("nowhere")
    world.run(5)
    assert world.placed("lost")


def test_queues_sum_what_their_children_hold() -> None:
    world = World()
    world.queue("dept")
    world.queue("team", "dept", gpu={"quota": 2, "limit": -1, "overQuotaWeight": 1})
    world.gang("train", 4, queue="team")
    world.gang("huge", 40, queue="team")
    world.run(5)
    dept, team = _queue(world, "dept"), _queue(world, "team")
    assert dept["childQueues"] == ["team"]
    assert dept["allocated"] == team["allocated"] == {"cpu": "4", "nvidia.com/gpu": "4"}
    assert dept["requested"]["nvidia.com/gpu"] == "44"
    assert team["pending"] == 1
    assert {c["type"]: c["status"] for c in team["conditions"]} == {
        "Ready": "True",
        "OverQuota": "True",
    }


def test_a_gang_that_ended_is_finished_and_holds_nothing() -> None:
    world = World()
    world.gang("train", 2)
    world.run(5)
    for pod in world.pods():
        name = pod["metadata"]["name"]
        patch = {"status": {"phase": "Succeeded"}}
        world.store.patch(kinds.POD, name, patch, "default", subresource="status")
    world.run(5)
    assert world.condition("train", "Finished")["status"] == "True"
    assert world.group("train")["status"]["resourcesStatus"]["allocated"] == {}
    assert _queue(world, "default-queue")["allocated"] == {}


def test_the_figures_follow_but_an_unchanged_reason_is_not_repeated() -> None:
    world = World(nodes=1)
    world.gang("large", 9)
    world.run(20)
    events = world.events("large")
    for i in range(3):
        world.gang(f"small-{i}", 1)
        world.run(10)
    assert world.events("large") == events


def test_who_went_first_is_called_by_the_workload_not_by_its_gang() -> None:
    world = World(nodes=1)
    world.gang("first", 8)
    world.gang("late", 8)
    world.run(5)
    said = [m for name in ("first", "late") for _, m in world.events(name)]
    assert any("went first: PodGroup " in message for message in said), said

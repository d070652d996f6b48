"""Queues are changed on the console: what the preview says is what comes of it."""

from __future__ import annotations

import pytest

from kai_ray.cluster import resources as R

from .conftest import World


@pytest.fixture
def full(world: World) -> World:
    """`flow` of robots has borrowed all 16 GPUs in two jobs; nobody of vision is there."""
    for name in ("flow", "drift"):
        world.job(name, "robots")
        world.run()
    return world


def shares(world: World) -> dict[str, float]:
    return {q["name"]: q["gpu"]["fairShare"] for q in world.get("/queues")["queues"]}


def preview(world: World, *changes: dict) -> dict:
    answer = world.write("POST", "/queues/preview", {"changes": list(changes)})
    assert answer.status == 200, answer.body
    return answer.json


def test_what_is_given_is_changed_and_the_rest_stays(world: World) -> None:
    before = world.cluster.store.get(R.QUEUE, "vision")["spec"]
    answer = world.write("PATCH", "/queues/vision", {"gpu": {"quota": 4, "limit": 12.5}})
    assert (answer.json["gpu"]["quota"], answer.json["gpu"]["limit"]) == (4, 12.5)
    after = world.cluster.store.get(R.QUEUE, "vision")["spec"]
    gpu = {**before["resources"]["gpu"], "quota": 4, "limit": 12.5}
    assert after == {**before, "resources": {**before["resources"], "gpu": gpu}}


def test_priority_name_and_state(world: World) -> None:
    body = {"priority": 120, "displayName": "Vision", "state": "Paused"}
    row = world.write("PATCH", "/queues/vision", body).json
    assert (row["priority"], row["displayName"], row["state"]) == (120, "Vision", "Paused")
    world.run()
    assert world.get("/queues/vision")["state"] == "Paused"
    world.write("PATCH", "/queues/vision", {"displayName": "", "state": "Active"})
    world.run()
    again = world.get("/queues/vision")
    assert (again["displayName"], again["state"], again["priority"]) == ("", "Active", 120)


def test_two_who_change_the_same_queue(world: World) -> None:
    version = world.get("/queues/vision")["resourceVersion"]
    body = {"resourceVersion": version, "priority": 1}
    assert world.write("PATCH", "/queues/vision", body).status == 200
    late = world.write("PATCH", "/queues/vision", {**body, "priority": 2})
    assert (late.status, late.error["reason"]) == (409, "Conflict")
    assert world.cluster.store.get(R.QUEUE, "vision")["spec"]["priority"] == 1


def test_the_preview_changes_nothing_and_comes_true(full: World) -> None:
    full.job("sight", "vision", pods=2)
    full.run(1)
    before = shares(full)
    change = {"name": "robots", "gpu": {"quota": 4}, "priority": 90}
    told = preview(full, change, {"name": "vision", "gpu": {"quota": 12}})
    assert full.cluster.store.get(R.QUEUE, "robots")["spec"]["resources"]["gpu"]["quota"] == 0
    rows = {row["name"]: row for row in told["queues"]}
    assert rows["robots"]["gpu"]["before"]["fairShare"] == before["robots"]
    assert rows["robots"]["priority"] == {"before": 100, "after": 90}
    full.write("PATCH", "/queues/robots", {k: v for k, v in change.items() if k != "name"})
    full.write("PATCH", "/queues/vision", {"gpu": {"quota": 12}})
    full.run(5)
    assert shares(full) == {name: row["gpu"]["after"]["fairShare"] for name, row in rows.items()}


def test_the_preview_says_whose_jobs_would_go_and_start(full: World) -> None:
    """vision's job asks for GPUs that are not its own, until its quota grows."""
    full.write("PATCH", "/queues/vision", {"gpu": {"quota": 0, "limit": 0}})
    full.run(2)
    full.job("sight", "vision")
    full.run(5)
    assert full.get("/jobs/default/Job/sight")["state"] == "Waiting"
    told = preview(full, {"name": "vision", "gpu": {"quota": 8, "limit": -1}})
    text = " ".join(told["effects"])
    assert "would be evicted (Reclaimed)" in text and "sight" in text, text
    assert "queue vision: fair share 0 → 8 GPUs" in told["effects"]
    full.write("PATCH", "/queues/vision", {"gpu": {"quota": 8, "limit": -1}})
    full.run(60)
    assert full.get("/jobs/default/Job/sight")["state"] == "Running"
    evicted = [e for c in full.get("/decisions")["cycles"] for e in c["evicted"]]
    assert len(evicted) == 1 and evicted[0]["job"] in text


def test_what_cannot_be_meant_is_named_in_the_preview(world: World) -> None:
    told = preview(world, {"name": "vision", "gpu": {"quota": 20, "limit": 10}})
    assert not told["valid"] and not told["queues"]
    (problem,) = told["problems"]
    assert (problem["queue"], problem["field"]) == ("vision", "gpu.quota")
    gone = world.write("POST", "/queues/preview", {"changes": [{"name": "gone"}]})
    assert (gone.status, gone.error["field"]) == (422, "changes[0].name")
    for body in ({}, {"changes": []}, {"changes": [{}]}, {"changes": [{"name": "x"}] * 201}):
        assert world.write("POST", "/queues/preview", body).status == 422, body


def test_nothing_to_say_is_said(world: World) -> None:
    assert preview(world, {"name": "vision"})["effects"] == ["nothing changes now"]


def test_without_a_scheduler_beside_it_the_preview_goes_by_the_objects(full: World) -> None:
    """`kai console` on a kubeconfig: the same shares from what Queues and Nodes say."""
    from kai_ray.console.app import LOOPBACK, Console
    from kai_ray.console.cluster import Cluster
    from kai_ray.console.clusters import Clusters
    from kai_ray.console.server import ConsoleServer
    from kai_ray.console.viewers import LocalDoor, Owner

    full.job("sight", "vision", pods=2)
    full.run(1)
    store, runtime = full.cluster.store, full.cluster.runtime
    cluster = Cluster("outside", lambda: runtime, store)
    console = Console(Clusters([cluster]), LocalDoor("t" * 20, Owner("me", store), ""), LOOPBACK)
    change = {"changes": [{"name": "robots", "gpu": {"quota": 4}}]}
    with ConsoleServer(console) as server:
        from .conftest import Client

        outside = Client(server.port, "t" * 20)
        told = outside.write("POST", "/queues/preview", change).json
        note = outside.get("/decisions")["note"]
        why = outside.get("/jobs/default/Job/sight/explain")
    inside = full.write("POST", "/queues/preview", change).json
    gpus = [{row["name"]: row["gpu"] for row in one["queues"]} for one in (told, inside)]
    for name in ("research", "vision", "robots"):
        assert gpus[0][name] == gpus[1][name]
    assert "open its own console" in note
    assert why["sentence"].startswith("Job sight waits")

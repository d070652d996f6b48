"""Queues and priority classes that are made, or say something else, after the workloads."""

from __future__ import annotations

import pytest

from kai_ray.api import labels as keys
from kai_ray.cluster import resources as kinds
from kai_ray.podgrouper.watching import mentions
from tests.control import objects
from tests.podgrouper.world import World, ray_cluster


@pytest.fixture
def world() -> World:
    return World()


def torch(queue: str, priority: str = "") -> dict:
    pod = {"containers": [{"name": "pytorch", "image": "app"}], "schedulerName": "kai-scheduler"}
    role = {"replicas": 1, "template": {"spec": pod}}
    policy = {"schedulingPolicy": {"queue": queue, "priorityClass": priority}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "t"},
        "spec": {"pytorchReplicaSpecs": {"Master": role}, "runPolicy": policy},
    }


def klass(name: str, value: int) -> dict:
    return {"metadata": {"name": name}, "value": value}


def test_a_queue_that_comes_later_gets_the_workloads_that_name_it(world: World) -> None:
    world.add(kinds.PYTORCH_JOB, torch("late"))
    assert world.group()["spec"]["queue"] == "default-queue"
    world.add(kinds.QUEUE, objects.queue("other"))
    assert world.group()["spec"]["queue"] == "default-queue"
    world.add(kinds.QUEUE, objects.queue("late"))
    assert world.group()["spec"]["queue"] == "late"


def test_a_class_that_comes_later_counts_for_the_workloads_that_name_it(world: World) -> None:
    world.add(kinds.PYTORCH_JOB, torch("", "urgent"))
    before = world.group()["spec"].get("priorityClassName")
    assert before != "urgent"
    world.add(kinds.PRIORITY_CLASS, klass("urgent", 90))
    assert world.group()["spec"]["priorityClassName"] == "urgent"
    world.store.delete(kinds.PRIORITY_CLASS, "urgent")
    world.settle()
    assert world.group()["spec"].get("priorityClassName") == before


def test_the_default_of_a_queue_holds_for_workloads_that_were_there_before(world: World) -> None:
    world.add(kinds.PRIORITY_CLASS, klass("batch", 40))
    world.add(kinds.QUEUE, objects.queue("top"))
    world.add(kinds.QUEUE, objects.queue("team", "top"))
    label = {keys.QUEUE: "team"}
    job = torch("")
    job["metadata"]["labels"] = label
    world.add(kinds.PYTORCH_JOB, job)
    named = ray_cluster()
    named["metadata"]["labels"] = {**label, keys.PRIORITY_CLASS: "build"}
    world.add(kinds.RAY_CLUSTER, named)

    def classes() -> set[str]:
        return {group["spec"].get("priorityClassName", "") for group in world.groups()}

    before = classes()
    note = {"metadata": {"annotations": {keys.DEFAULT_PRIORITY_CLASS: "batch"}}}
    world.store.patch(kinds.QUEUE, "top", note)  # the queue above says it for those below
    world.settle()
    assert classes() == {"build", "batch"}
    note["metadata"]["annotations"][keys.DEFAULT_PRIORITY_CLASS] = None  # type: ignore[assignment]
    world.store.patch(kinds.QUEUE, "top", note)
    world.settle()
    assert classes() == before


def test_a_name_is_found_wherever_it_stands_and_only_whole() -> None:
    assert mentions(torch("late"), "late")
    assert not mentions(torch("later"), "late")
    assert mentions({"metadata": {"labels": {"volcano.sh/queue-name": "late"}}}, "late")
    assert not mentions({"spec": {"containers": [{"name": "late"}]}}, "late")

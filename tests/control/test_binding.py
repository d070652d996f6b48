"""Gangs are bound as a whole, each pod with one write, and nothing is written when idle."""

from __future__ import annotations

from collections import Counter

from kai_ray.cluster import resources as kinds
from kai_ray.controllers.config import ControlConfig
from kai_ray.encode import EncodeConfig

from . import objects
from .world import World


def test_a_gang_is_bound_as_a_whole() -> None:
    world = World(nodes=2)
    world.gang("train", 12)
    world.run()
    assert Counter(world.placed().values()) == {"node-0": 8, "node-1": 4}


def test_a_gang_that_does_not_fit_starts_no_pod_and_another_one_does() -> None:
    world = World(nodes=2)
    world.gang("large", 17)
    world.gang("small", 16)
    world.run()
    assert len(world.placed("small")) == 16
    assert not world.placed("large")


def test_it_starts_when_room_becomes_free() -> None:
    world = World(nodes=1)
    world.gang("first", 8)
    world.run()
    world.gang("second", 8)
    world.run()
    assert not world.placed("second")
    for pod in world.pods("first"):
        world.store.delete(kinds.POD, pod["metadata"]["name"], "default", grace_s=0)
    world.run()
    assert len(world.placed("second")) == 8


def test_an_idle_cluster_writes_nothing() -> None:
    world = World(nodes=1)
    world.gang("runs", 4)
    world.gang("waits", 8)
    world.run(30)
    before, cycles = world.writes(), world.control.loop.cycles
    world.run(600)
    assert world.writes() == before
    assert world.control.loop.cycles == cycles


def test_a_volume_that_waits_for_its_first_consumer_is_told_the_node_first() -> None:
    world = World(nodes=1)
    late = {"metadata": {"name": "late"}, "provisioner": "p"}
    late["volumeBindingMode"] = "WaitForFirstConsumer"  # type: ignore[assignment]
    world.store.create(kinds.STORAGE_CLASS, late)
    claim = {
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {
            "storageClassName": "late",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    world.store.create(kinds.PVC, claim)
    world.store.create(kinds.POD_GROUP, objects.podgroup("g", "default-queue"))
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    world.store.create(kinds.POD, objects.pod("p", "g", volumes=[volume]))
    world.run()
    assert world.placed() == {"p": "node-0"}
    told = world.store.get(kinds.PVC, "data", "default")["metadata"]["annotations"]
    assert told["volume.kubernetes.io/selected-node"] == "node-0"


def test_the_gang_travels_on_the_binding_where_admission_did_not_stamp_it() -> None:
    world = World(nodes=1, member_of=lambda pod: ("g", "workers"))
    subgroups = [{"name": "workers", "minMember": 1}]
    group = objects.podgroup("g", "default-queue", None, subGroups=subgroups)
    world.store.create(kinds.POD_GROUP, group)
    world.store.create(kinds.POD, objects.pod("p"))
    world.run()
    (pod,) = world.pods()
    assert pod["spec"]["nodeName"] == "node-0"
    assert pod["metadata"]["annotations"]["pod-group-name"] == "g"
    assert pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "workers"


def test_a_node_pool_is_written_on_what_is_bound_in_it() -> None:
    config = ControlConfig(encode=EncodeConfig(node_pool="blue"), period_s=0.05)
    world = World(nodes=0, config=config)
    pool = {"kai.scheduler/node-pool": "blue"}
    world.store.create(kinds.NODE, objects.node("n", labels=pool))
    for resource, obj in (
        (kinds.QUEUE, objects.queue("q")),
        (kinds.POD_GROUP, objects.podgroup("g", "q")),
    ):
        obj["metadata"]["labels"] = pool
        world.store.create(resource, obj)
    world.store.create(kinds.POD, objects.pod("p", "g"))
    world.run()
    (pod,) = world.pods()
    assert (pod["spec"]["nodeName"], pod["metadata"]["labels"]) == ("n", pool)


def test_more_pods_of_an_elastic_gang_start_as_room_allows() -> None:
    world = World(nodes=1)
    world.gang("elastic", 12, minimum=2)
    world.run()
    assert len(world.placed()) == 8
    world.store.create(kinds.NODE, objects.node("more", 2))
    world.run()
    assert len(world.placed()) == 10

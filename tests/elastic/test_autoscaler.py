"""What Ray's autoscaler asks for starts together or not at all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from tests.evict.world import EvictWorld, pod_spec, ray_spec


@pytest.fixture
def world() -> Iterator[EvictWorld]:
    with EvictWorld("1x8") as w:
        w.queues(a=4, b=4)
        yield w


def cluster(w: EvictWorld, least: int = 1, **more: object) -> None:
    """Two worker groups, one GPU a worker, under Ray's autoscaler."""
    spec = ray_spec(least, minReplicas=least, maxReplicas=10)
    first = spec["workerGroupSpecs"][0]
    spec["workerGroupSpecs"] = [first, {**first, "groupName": "v"}]
    w.create(R.RAY_CLUSTER, "ray", {**spec, "enableInTreeAutoscaling": True}, "a", **more)
    assert w.until(lambda: workers(w) == 2 * least, 30)


def ask(w: EvictWorld, first: int, second: int) -> None:
    """What the autoscaler beside the head writes."""
    spec = w.store.get(R.RAY_CLUSTER, "ray", "default")["spec"]
    groups = [
        {**group, "replicas": size}
        for group, size in zip(spec["workerGroupSpecs"], (first, second), strict=True)
    ]
    w.store.patch(R.RAY_CLUSTER, "ray", {"spec": {"workerGroupSpecs": groups}}, "default")


def workers(w: EvictWorld) -> int:
    return sum("worker" in name for name in w.running("ray"))


def test_requests_of_two_groups_are_granted_as_one(world: EvictWorld) -> None:
    cluster(world)
    world.job("other", "b", 3)
    world.run(5)
    ask(world, 3, 3)
    world.run(30)
    assert workers(world) == 2, "three GPUs are free and four are asked for"
    world.store.delete(R.JOB, "other", "default")
    assert world.until(lambda: workers(world) == 6, 30)


def test_several_requests_in_turn_are_one_group_too(world: EvictWorld) -> None:
    cluster(world)
    world.job("other", "b", 3)
    world.run(5)
    ask(world, 5, 1)
    world.run(1)
    ask(world, 5, 2)
    world.run(30)
    assert workers(world) == 2
    ask(world, 3, 2)
    assert world.until(lambda: workers(world) == 5, 30), "asked for less, it fits"


def test_work_that_can_use_every_worker_says_so(world: EvictWorld) -> None:
    cluster(world, annotations={L.GROWTH: "one-by-one"})
    world.job("other", "b", 3)
    world.run(5)
    ask(world, 3, 3)
    world.run(30)
    assert workers(world) == 5


def test_a_word_that_nobody_knows_is_told_and_means_the_usual(world: EvictWorld) -> None:
    cluster(world, annotations={L.GROWTH: "somehow"})
    world.job("other", "b", 3)
    world.run(5)
    ask(world, 3, 3)
    world.run(30)
    assert workers(world) == 2
    texts = [text for _, text in world.events("ray")]
    assert any("write together or one-by-one" in text for text in texts), texts


def test_without_the_autoscaler_nothing_is_asked_for_together(world: EvictWorld) -> None:
    spec = ray_spec(2, minReplicas=2, maxReplicas=10)
    world.create(R.RAY_CLUSTER, "ray", spec, "a")
    world.run(10)
    assert L.GROWS_TOGETHER not in world.annotations("pg-ray")


def test_growth_that_waits_holds_up_nobody_else(world: EvictWorld) -> None:
    cluster(world)
    ask(world, 9, 9)
    world.run(5)
    world.job("small", "b", 4)
    assert world.until(lambda: len(world.running("small")) == 4, 30)


def test_a_multi_host_replica_counts_with_all_its_hosts(world: EvictWorld) -> None:
    template = {"spec": {"containers": pod_spec(1, "ray")["containers"]}}
    spec = ray_spec(1, minReplicas=1, maxReplicas=10, numOfHosts=2, template=template)
    world.create(R.RAY_CLUSTER, "ray", {**spec, "enableInTreeAutoscaling": True}, "a")
    assert world.until(lambda: workers(world) == 2, 30)
    world.job("other", "b", 3)
    world.run(5)
    groups = [{**spec["workerGroupSpecs"][0], "replicas": 3}]
    world.store.patch(R.RAY_CLUSTER, "ray", {"spec": {"workerGroupSpecs": groups}}, "default")
    world.run(30)
    assert workers(world) == 2, "three GPUs are free, two replicas of two are asked for"
    world.store.delete(R.JOB, "other", "default")
    assert world.until(lambda: workers(world) == 6, 30)

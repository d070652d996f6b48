"""Surplus Ray workers: Ray empties them first, and KubeRay does not make them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.controllers.drainer import Drain, DrainRequest, DrainWord
from tests.evict.world import EvictWorld, ray_spec


class Ray:
    """Answers for the simulated heads: a worker is busy for so long after it was asked."""

    def __init__(self, busy_s: float = 12.0, word: DrainWord | None = None) -> None:
        self.busy_s = busy_s
        self.word: DrainWord | None = word
        self.asked: dict[str, float] = {}
        self.requests: list[DrainRequest] = []

    def look(
        self, request: DrainRequest, now_s: float, news: Callable[[], None]
    ) -> Mapping[str, Drain]:
        self.requests.append(request)
        return {w.uid: self._one(w.uid, now_s) for w in request.workers}

    def _one(self, uid: str, now_s: float) -> Drain:
        if self.word is not None:
            return Drain(self.word, "the stand-in says so")
        since = self.asked.setdefault(uid, now_s)
        return Drain("drained") if now_s - since >= self.busy_s else Drain("draining")


def lent(world: EvictWorld, **more: object) -> None:
    """A cluster that scales itself holds all GPUs; half of them are lent."""
    world.queues(a=4, b=4)
    spec = {**ray_spec(8, 1, minReplicas=2), "enableInTreeAutoscaling": True}
    world.create(R.RAY_CLUSTER, "ray", spec, "b", **more)
    assert world.until(lambda: len(world.running("ray")) == 9, 60)


def cluster(world: EvictWorld) -> Object:
    return world.store.get(R.RAY_CLUSTER, "ray", "default")


def workers(world: EvictWorld) -> set[str]:
    return {n for n in world.running("ray") if "head" not in n}


def test_a_worker_is_emptied_then_deleted_and_not_made_again() -> None:
    ray = Ray()
    with EvictWorld("1x8", drainer=ray) as world:
        lent(world)
        before, began = workers(world), world.cluster.clock.now()
        world.torch("own", "a", 4, 1)
        assert world.until(lambda: len(ray.asked) == 4, 30)
        world.run(8)
        assert len(workers(world)) == 8, "nobody goes before Ray has emptied it"
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        assert 12 <= world.cluster.clock.now() - began < 30, "at the end of its work, not later"
        left = before - workers(world)
        group = cluster(world)["spec"]["workerGroupSpecs"][0]
        assert group["replicas"] == 4
        assert set(group["scaleStrategy"]["workersToDelete"]) == left
        world.run(60)
        assert workers(world) == before - left
        assert any(reason == "RayDrained" for reason, _ in world.events("ray"))
        assert not any("head" in w.name for r in ray.requests for w in r.workers)


def test_ray_has_until_the_deadline_and_no_longer() -> None:
    ray = Ray(busy_s=1e9)
    with EvictWorld("1x8", drainer=ray) as world:
        lent(world)
        began = world.cluster.clock.now()
        world.torch("own", "a", 4, 1)
        assert world.until(lambda: len(world.running("own")) == 4, 90)
        assert 30 <= world.cluster.clock.now() - began < 45
        deadline = ray.requests[0].deadline_s
        assert 29 <= deadline - began <= 33
        assert "a" in ray.requests[0].message


def test_a_grace_that_was_asked_for_is_rays_too() -> None:
    ray = Ray(busy_s=1e9)
    with EvictWorld("1x8", drainer=ray) as world:
        lent(world, annotations={L.EVICTION_GRACE: "2m"})
        began = world.cluster.clock.now()
        world.torch("own", "a", 4, 1)
        assert world.until(lambda: len(world.running("own")) == 4, 300)
        assert world.cluster.clock.now() - began >= 119


@pytest.mark.parametrize("word", ["unreachable", "refused"])
def test_where_ray_cannot_be_asked_that_is_said_and_nobody_waits(word: DrainWord) -> None:
    with EvictWorld("1x8", drainer=Ray(word=word)) as world:
        lent(world)
        began = world.cluster.clock.now()
        world.torch("own", "a", 4, 1)
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        assert world.cluster.clock.now() - began < 15
        told = [text for reason, text in world.events("ray") if reason == "RayNotDrained"]
        assert told
        assert "the stand-in says so" in told[0]


def test_what_ray_has_begun_cannot_be_taken_back() -> None:
    """A node that drains takes no work for ever: its pod goes, whoever wanted its room."""
    with EvictWorld("1x8", drainer=Ray()) as world:
        lent(world)
        world.torch("own", "a", 4, 1)
        world.run(4)
        world.store.delete(R.PYTORCH_JOB, "own", "default")
        world.run(40)
        assert len(workers(world)) == 4
        assert L.EVICTION_NOTICES not in world.annotations("ray")


def test_a_whole_cluster_that_asks_for_time_is_emptied_and_suspended() -> None:
    ray = Ray(busy_s=5)
    with EvictWorld("1x8", drainer=ray) as world:
        world.queues(a=8, b=0)
        world.ray_job("ray", "b", 4, 2, annotations={L.EVICTION_GRACE: "40s"})
        assert world.until(lambda: len(world.running("ray")) >= 5, 60)
        began = world.cluster.clock.now()
        world.torch("own", "a", 4, 2)
        assert world.until(lambda: len(ray.asked) == 4, 20)
        world.run(25)
        assert len(workers(world)) >= 4, "its driver may still save what the workers gave"
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        assert world.cluster.clock.now() - began >= 38
        assert [n for n, _, _ in world.evictions("RayJob")] == ["ray"]


def test_a_cluster_that_does_not_scale_itself_keeps_its_number() -> None:
    """The number is the user's: the worker is made again and waits for room."""
    with EvictWorld("1x8", drainer=Ray(busy_s=2)) as world:
        world.queues(a=4, b=4)
        spec = ray_spec(8, 1)
        world.create(R.RAY_CLUSTER, "ray", spec, "b", annotations={L.MIN_MEMBER: "3"})
        assert world.until(lambda: len(world.running("ray")) == 9, 60)
        world.torch("own", "a", 4, 1)
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        group = cluster(world)["spec"]["workerGroupSpecs"][0]
        assert group["replicas"] == 8
        assert "scaleStrategy" not in group
        assert world.until(lambda: len(world.pods("ray")) == 9, 60)
        assert len(world.running("ray")) == 5

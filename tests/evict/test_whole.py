"""Gangs with a switch go by it, and never in part."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object, Resource
from kai_ray.cluster.suspension import is_suspended
from kai_ray.controllers.conditions import find
from tests.evict.world import EvictWorld, pod_spec, ray_spec


def job_set(world: EvictWorld) -> Resource:
    job = {"parallelism": 4, "completions": 4, "template": {"spec": pod_spec(2)}}
    spec = {"replicatedJobs": [{"name": "work", "replicas": 1, "template": {"spec": job}}]}
    world.create(R.JOB_SET, "low", spec, "b")
    return R.JOB_SET


def train_job(world: EvictWorld) -> Resource:
    template = {"spec": {"template": {"spec": pod_spec(2, "node")}}}
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    replicated = {"name": "node", "template": {"metadata": {"labels": step}, **template}}
    spec = {
        "mlPolicy": {"numNodes": 4},
        "template": {"spec": {"replicatedJobs": [replicated]}},
    }
    meta = {"name": "torch", "namespace": "default"}
    world.store.create(R.TRAINING_RUNTIME, {"metadata": meta, "spec": spec})
    reference = {"kind": "TrainingRuntime", "name": "torch"}
    world.create(R.TRAIN_JOB, "low", {"runtimeRef": reference, "trainer": {"numNodes": 4}}, "b")
    return R.TRAIN_JOB


def torch(world: EvictWorld) -> Resource:
    world.torch("low", "b", 4, 2)
    return R.PYTORCH_JOB


def job(world: EvictWorld) -> Resource:
    world.job("low", "b", 4, 2)
    return R.JOB


@pytest.mark.parametrize("make", [torch, job, job_set, train_job])
def test_each_kind_goes_by_its_own_field_and_comes_back(
    make: Callable[[EvictWorld], Resource],
) -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8, b=0)
        kind = make(world)
        assert world.until(lambda: len(world.running("low")) == 4, 60)
        seen: list[bool] = []
        informer = world.cluster.runtime.informer(kind)

        def note(old: Object | None, new: Object | None) -> None:
            if new is not None and new["metadata"]["name"] == "low":
                seen.append(is_suspended(kind, new))

        informer.on_change(note)
        world.torch("own", "a", 4, 2, annotations={L.RUN_TIME: "60s"})
        assert world.until(lambda: len(world.running("own")) == 4, 60)
        assert True in seen
        assert world.until(lambda: len(world.running("low")) == 4, 300)
        assert not is_suspended(kind, world.store.get(kind, "low", "default"))


def test_a_ray_cluster_of_which_part_is_to_move_moves_as_a_whole() -> None:
    """Its workers stand on two nodes; one of them is in the way of a job that needs a whole one."""
    with EvictWorld("2x8") as world:
        world.queues(a=16)
        for name in ("one", "two"):  # leave three GPUs on each node
            world.job(name, "a", 1, 5)
            world.run(3)
        world.create(R.RAY_CLUSTER, "ray", ray_spec(2, 3), "a")
        assert world.until(lambda: len(world.running("ray")) == 3, 60)
        workers = [p for p in world.pods("ray") if "head" not in p["metadata"]["name"]]
        assert len({p["spec"]["nodeName"] for p in workers}) == 2
        before = {p["metadata"]["uid"] for p in world.pods("ray")}
        for name in ("one", "two"):
            world.store.delete(R.JOB, name, "default")
        world.run(10)
        deleted: list[str] = []
        call = world.store.delete

        def delete(resource: Resource, name: str, *args: object, **more: object) -> Object | None:
            if resource == R.POD and name.startswith("ray"):
                pod = world.store.get(R.POD, name, "default")
                deleted.extend([name] if find(pod, "DisruptionTarget") else [])
            return call(resource, name, *args, **more)  # type: ignore[arg-type]

        world.store.delete = delete  # type: ignore[method-assign]
        world.job("large", "a", 1, 8)
        assert world.until(lambda: len(world.running("large")) == 1, 120)
        assert world.until(lambda: len(world.running("ray")) == 3, 120)
        assert not deleted, "by its switch, not pod by pod"
        assert not before & {p["metadata"]["uid"] for p in world.pods("ray")}, "all of it"
        assert [n for n, _, _ in world.evictions("RayCluster")] == ["ray"]

"""Elastic workloads take what nobody uses, and give it back before anybody has to leave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object, Resource
from tests.evict.world import EvictWorld, pod_spec, ray_spec


@pytest.fixture
def world() -> Iterator[EvictWorld]:
    with EvictWorld("1x8") as w:
        w.queues(a=4, b=4)
        yield w


def torch(w: EvictWorld, name: str, pods: int, least: int, most: int, **annotations: str) -> None:
    role = {"restartPolicy": "OnFailure", "template": {"spec": pod_spec(1, "pytorch")}}
    spec = {
        "elasticPolicy": {"minReplicas": least, "maxReplicas": most, "rdzvBackend": "c10d"},
        "pytorchReplicaSpecs": {"Worker": {"replicas": pods, **role}},
    }
    w.create(R.PYTORCH_JOB, name, spec, "a", annotations=annotations)


def job(w: EvictWorld, name: str, pods: int, most: int, **spec: Any) -> None:
    body = {"parallelism": pods, "template": {"spec": pod_spec(1)}, **spec}
    notes = {L.MAX_PARALLELISM: str(most), L.BATCH_MIN_MEMBER: "1"}
    w.create(R.JOB, name, body, "a", annotations=notes)


def ray(w: EvictWorld, name: str, workers: int, least: int, most: int, **annotations: str) -> None:
    spec = ray_spec(workers, minReplicas=least, maxReplicas=most)
    w.create(R.RAY_CLUSTER, name, spec, "a", annotations={L.ELASTIC: "true", **annotations})


KINDS: dict[str, tuple[Resource, Any]] = {
    "PyTorchJob": (R.PYTORCH_JOB, lambda w: torch(w, "x", 2, 1, 6)),
    "Job": (R.JOB, lambda w: job(w, "x", 2, 6)),
    "RayCluster": (R.RAY_CLUSTER, lambda w: ray(w, "x", 2, 1, 6)),
}


def size(w: EvictWorld, resource: Resource, name: str = "x") -> int:
    spec = w.store.get(resource, name, "default")["spec"]
    if resource == R.JOB:
        return spec["parallelism"]
    if resource == R.PYTORCH_JOB:
        return spec["pytorchReplicaSpecs"]["Worker"]["replicas"]
    return spec["workerGroupSpecs"][0]["replicas"]


def set_size(w: EvictWorld, resource: Resource, pods: int) -> None:
    spec: Object = {"parallelism": pods}
    if resource == R.PYTORCH_JOB:
        spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": pods}}}
    w.store.patch(resource, "x", {"spec": spec}, "default")


def held(w: EvictWorld) -> int:
    """GPUs that the workload's running pods hold."""
    return sum(
        any("nvidia.com/gpu" in c["resources"]["limits"] for c in p["spec"]["containers"])
        for p in w.pods("x")
        if p["metadata"]["name"] in w.running("x")
    )


@pytest.mark.parametrize("kind", KINDS)
def test_what_nobody_uses_is_lent(world: EvictWorld, kind: str) -> None:
    resource, create = KINDS[kind]
    create(world)
    world.run(5)
    assert held(world) == 2, "first only what its user asked for"
    assert world.until(lambda: held(world) == 6, 60)
    assert size(world, resource) == 6, "its upper bound, though eight are free"
    record = world.store.get(resource, "x", "default")["metadata"]["annotations"][L.ELASTIC_SIZE]
    assert [*json.loads(record).values()] == [{"asked": 2, "given": 6}]
    assert any(reason == "Grown" and "from 2 to 6" in text for reason, text in world.events("x"))


@pytest.mark.parametrize("kind", KINDS)
def test_lent_room_is_given_back_before_anybody_is_evicted(world: EvictWorld, kind: str) -> None:
    resource, create = KINDS[kind]
    create(world)
    assert world.until(lambda: held(world) == 6, 60)
    world.job("other", "b", 5)
    assert world.until(lambda: len(world.running("other")) == 5, 30)
    world.run(5)
    assert held(world) == 3, "as many as must go, and no more"
    assert size(world, resource) == 3
    assert world.evictions() == []
    assert any(reason == "Shrunk" for reason, _ in world.events("x"))


@pytest.mark.parametrize("kind", KINDS)
def test_even_of_its_own_queue(world: EvictWorld, kind: str) -> None:
    """Equal priority in one queue evicts nobody; lent room is not evicted but given back."""
    _, create = KINDS[kind]
    create(world)
    assert world.until(lambda: held(world) == 6, 60)
    world.job("other", "a", 6)
    assert world.until(lambda: len(world.running("other")) == 6, 30)
    assert held(world) == 2, "what its user asked for stays"
    assert world.evictions() == []


@pytest.mark.parametrize("kind", KINDS)
def test_it_comes_back_when_the_others_have_ended(world: EvictWorld, kind: str) -> None:
    resource, create = KINDS[kind]
    create(world)
    assert world.until(lambda: held(world) == 6, 60)
    world.job("other", "b", 6)
    assert world.until(lambda: len(world.running("other")) == 6, 30)
    notes = world.store.get(resource, "x", "default")["metadata"]["annotations"]
    assert L.ELASTIC_SIZE not in notes, "nothing is lent any more"
    world.store.delete(R.JOB, "other", "default")
    assert world.until(lambda: held(world) == 6, 120)


def test_what_others_reclaim_of_the_asked_part_is_a_demand_as_ever(world: EvictWorld) -> None:
    """Six of eight asked for, a quota of four: two go to the other queue, and want to come back."""
    torch(world, "x", 6, 1, 8)
    assert world.until(lambda: held(world) == 8, 60)
    world.job("other", "b", 4)
    assert world.until(lambda: len(world.running("other")) == 4, 60)
    assert held(world) == 4
    assert size(world, R.PYTORCH_JOB) == 6, "its user's number"
    assert world.evictions(), "two of them had to leave"


@pytest.mark.parametrize("stated", ["false", "true"])
def test_the_user_says_whether(world: EvictWorld, stated: str) -> None:
    torch(world, "x", 2, 1, 6, **{L.ELASTIC: stated})
    world.run(60)
    assert held(world) == (2 if stated == "false" else 6)


def test_a_ray_cluster_is_not_elastic_unless_it_says_so(world: EvictWorld) -> None:
    """Bounds without an autoscaler stand in every example; they are no wish to grow."""
    spec = ray_spec(2, minReplicas=1, maxReplicas=6)
    world.create(R.RAY_CLUSTER, "x", spec, "a")
    world.run(60)
    assert held(world) == 2


def test_a_size_that_the_user_writes_is_the_new_wish(world: EvictWorld) -> None:
    job(world, "x", 2, 6)
    assert world.until(lambda: held(world) == 6, 60)
    set_size(world, R.JOB, 4)
    world.run(5)
    assert held(world) == 4
    world.job("other", "b", 6)
    world.run(30)
    assert size(world, R.JOB) == 4, "nothing of it is lent"
    assert held(world) == 4 and world.running("other") == []


def test_limits_of_the_queue_hold_for_what_is_lent(world: EvictWorld) -> None:
    world.store.patch(R.QUEUE, "a", {"spec": {"resources": {"gpu": {"limit": 5}}}})
    torch(world, "x", 2, 1, 8)
    world.run(60)
    assert held(world) == 5


def test_a_job_never_runs_more_pods_than_are_left_to_complete(world: EvictWorld) -> None:
    job(world, "x", 2, 8, completions=3)
    world.run(60)
    assert held(world) == 3


def test_two_share_what_is_left_and_nothing_flaps(world: EvictWorld) -> None:
    torch(world, "x", 1, 1, 8)
    torch(world, "y", 1, 1, 8)
    world.run(120)
    sizes = size(world, R.PYTORCH_JOB, "x"), size(world, R.PYTORCH_JOB, "y")
    assert sum(sizes) == 8
    before = world.store.get(R.PYTORCH_JOB, "x", "default")["metadata"]["resourceVersion"]
    world.run(600)
    after = world.store.get(R.PYTORCH_JOB, "x", "default")["metadata"]["resourceVersion"]
    assert before == after, "in rest nothing is written"


def test_others_that_come_and_go_all_the_time_are_no_hindrance(world: EvictWorld) -> None:
    torch(world, "x", 2, 1, 6)
    for turn in range(40):
        world.bare(f"small-{turn}", "b", gpus=0)
        world.run(1)
    assert held(world) == 6


def test_a_gang_that_does_not_fit_anyhow_costs_the_lender_nothing(world: EvictWorld) -> None:
    torch(world, "x", 2, 1, 6)
    assert world.until(lambda: held(world) == 6, 60)
    world.job("huge", "b", 9)
    world.run(60)
    assert held(world) == 6


@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_remembers_what_was_lent(tmp_path: Any, kind: str) -> None:
    _, create = KINDS[kind]
    with EvictWorld("1x8", tmp_path) as w:
        w.queues(a=4, b=4)
        create(w)
        assert w.until(lambda: held(w) == 6, 60)
        now = w.cluster.clock.now()
    with EvictWorld("1x8", tmp_path, now) as w:
        w.job("other", "b", 6)
        assert w.until(lambda: len(w.running("other")) == 6, 60)
        assert held(w) == 2
        assert w.evictions() == []


@pytest.mark.parametrize(
    "record", ["", "nonsense", "[]", '{"Worker": 3}', '{"Worker": {"asked": "x", "given": 6}}']
)
def test_a_record_that_nobody_can_read_counts_for_nothing(world: EvictWorld, record: str) -> None:
    torch(world, "x", 2, 1, 2, **{L.ELASTIC_SIZE: record})
    world.run(30)
    assert held(world) == 2 and size(world, R.PYTORCH_JOB) == 2

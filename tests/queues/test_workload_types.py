"""Build, train, inference: their priorities, and room that is always there for some of them."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.admission import default_admission
from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Invalid
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.control import objects
from tests.control.world import World

from .worlds import annotate


def job(name: str, gpus: int = 1, labels: dict[str, str] | None = None) -> dict[str, Any]:
    requests = {"cpu": "1", "nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "app", "resources": {"limits": requests}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    meta = {"name": name, "namespace": "default", "labels": labels or {}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"template": template, "parallelism": 1, "completions": 1},
    }


def cluster(nodes: str = "2x8") -> EmbeddedCluster:
    return EmbeddedCluster(ClusterConfig.short(nodes), VirtualClock())


def group_of(c: EmbeddedCluster, name: str) -> dict[str, Any]:
    groups = c.store.list(kinds.POD_GROUP, "default").items
    return next(g for g in groups if name in g["metadata"]["name"])


@pytest.mark.parametrize(
    ("kind", "priority"),
    [
        ("train", "train"),
        ("build", "build"),
        ("interactive", "build"),
        ("interactive-preemptible", "build-preemptible"),
        ("inference", "inference"),
    ],
)
def test_the_type_of_a_workload_decides_its_priority(kind: str, priority: str) -> None:
    with cluster() as c:
        c.store.create(kinds.JOB, job("one", labels={L.WORKLOAD_TYPE: kind}))
        c.run_for(5)
        assert group_of(c, "one")["spec"]["priorityClassName"] == priority


def test_a_priority_class_goes_before_the_type() -> None:
    with cluster() as c:
        labels = {L.WORKLOAD_TYPE: "inference", L.PRIORITY_CLASS: "train"}
        c.store.create(kinds.JOB, job("one", labels=labels))
        c.run_for(5)
        assert group_of(c, "one")["spec"]["priorityClassName"] == "train"


@pytest.mark.parametrize(("kind", "preemptible"), [("train", True), ("build", False)])
def test_the_type_decides_who_may_be_preempted(kind: str, preemptible: bool) -> None:
    with cluster() as c:
        c.store.create(kinds.JOB, job("one", labels={L.WORKLOAD_TYPE: kind}))
        c.run_for(5)
        encoded = c.control.encoder.snapshot(c.clock.now())
        assert bool(encoded.snapshot.gangs.preemptible[0]) is preemptible


def test_a_type_that_does_not_exist_is_named_and_the_job_starts_all_the_same() -> None:
    with cluster() as c:
        c.store.create(kinds.JOB, job("one", labels={L.WORKLOAD_TYPE: "magic"}))
        c.run_for(10)
        assert group_of(c, "one")["spec"]["priorityClassName"] == "train"
        notes = [e["message"] for e in c.store.list(kinds.EVENT).items]
        assert any("'magic' is ignored" in note for note in notes)
        pod = c.store.list(kinds.POD, "default").items[0]
        assert pod["spec"].get("nodeName")


def test_the_default_of_the_queue_is_for_workloads_that_say_nothing() -> None:
    with cluster() as c:
        c.store.create(kinds.QUEUE, objects.queue("root"))
        c.store.create(kinds.QUEUE, objects.queue("team", "root"))
        note = {"metadata": {"annotations": {L.DEFAULT_PRIORITY_CLASS: "inference"}}}
        c.store.patch(kinds.QUEUE, "root", note)
        c.run_for(1)
        c.store.create(kinds.JOB, job("plain", labels={L.QUEUE: "team"}))
        typed = {L.QUEUE: "team", L.WORKLOAD_TYPE: "build"}
        c.store.create(kinds.JOB, job("typed", labels=typed))
        c.run_for(5)
        assert group_of(c, "plain")["spec"]["priorityClassName"] == "inference"
        assert group_of(c, "typed")["spec"]["priorityClassName"] == "build"


def test_a_podgroup_of_a_type_that_does_not_exist_is_refused() -> None:
    world = World(admission=tuple(default_admission()))
    group = objects.podgroup("bad", "default-queue", 1)
    group["metadata"]["labels"] = {L.WORKLOAD_TYPE: "magic"}
    with pytest.raises(Invalid, match="none of train, build, inference"):
        world.store.create(kinds.POD_GROUP, group)


# ---------------------------------------------------------------------- nodes kept for a type


def kept_world(value: str) -> World:
    world = World(nodes=2)
    world.queue("team")
    note = {"metadata": {"labels": {L.RESERVED_FOR: value}}}
    world.store.patch(kinds.NODE, "node-1", note)
    return world


def typed_gang(world: World, name: str, kind: str, pods: int, **spec: Any) -> None:
    group = objects.podgroup(name, "team", 1, **spec)
    if kind:
        group["metadata"]["labels"] = {L.WORKLOAD_TYPE: kind}
    world.store.create(kinds.POD_GROUP, group)
    for i in range(pods):
        world.store.create(kinds.POD, objects.pod(f"{name}-{i}", name, gpus=8))


@pytest.mark.parametrize(
    ("value", "kind", "count"),
    [
        ("build", "train", 1),
        ("build", "", 1),
        ("build", "build", 2),
        ("build", "interactive", 2),
        ("build", "inference", 1),
        ("build.inference", "inference", 2),
    ],
)
def test_a_node_kept_for_a_type_takes_no_other(value: str, kind: str, count: int) -> None:
    world = kept_world(value)
    typed_gang(world, "job", kind, 3)
    world.run(8)
    assert len(world.placed("job")) == count


def test_a_priority_class_tells_the_type_where_no_label_does() -> None:
    world = kept_world("build")
    typed_gang(world, "job", "", 2, priorityClassName="build")
    world.run(3)
    assert len(world.placed("job")) == 2


def test_room_that_is_kept_is_there_when_it_is_needed_and_explained_until_then() -> None:
    world = kept_world("build")
    for i in range(3):
        typed_gang(world, f"train-{i}", "train", 1)
    world.run(8)
    waiting = world.condition("train-2")
    assert waiting["status"] == "False"
    assert "1 node kept for other workloads" in waiting["message"]
    typed_gang(world, "notebook", "interactive", 1)
    world.run(3)
    assert world.placed("notebook") == {"notebook-0": "node-1"}


# ---------------------------------------------------------------------- GPUs kept for a queue


def reserved_world(gpus: str = "4") -> World:
    world = World(nodes=2)
    world.queue("build")
    world.queue("notebooks", "build")
    world.queue("train")
    annotate(world, "build", {L.RESERVED_GPUS: gpus})
    return world


def test_a_reserve_is_left_free_by_others() -> None:
    world = reserved_world()
    for i in range(20):
        world.gang(f"train-{i:02d}", 1, "train")
    world.run(5)
    assert len(world.placed("train")) == 12
    said = world.condition("train-19")
    assert said["reason"] == "ReservedForOthers"
    assert "queue build keeps 4 GPUs in reserve, of which 4 are unused" in said["message"]


def test_those_it_is_kept_for_find_it_also_below_the_queue() -> None:
    world = reserved_world()
    for i in range(20):
        world.gang(f"train-{i:02d}", 1, "train")
    world.run(3)
    world.gang("notebook", 4, "notebooks")
    world.run(3)
    assert len(world.placed("notebook")) == 4


def test_what_is_used_of_a_reserve_is_no_longer_kept() -> None:
    world = reserved_world()
    world.gang("notebook", 3, "notebooks")
    world.run(3)
    for i in range(20):
        world.gang(f"train-{i:02d}", 1, "train")
    world.run(5)
    assert len(world.placed("train")) == 12


def test_a_reserve_inside_a_reserve_counts_once() -> None:
    world = reserved_world()
    annotate(world, "notebooks", {L.RESERVED_GPUS: "3"})
    for i in range(20):
        world.gang(f"train-{i:02d}", 1, "train")
    world.run(5)
    assert len(world.placed("train")) == 12


def test_pods_without_gpus_are_not_concerned() -> None:
    world = reserved_world("16")
    world.gang("train", 2, "train", gpus=0)
    world.run(3)
    assert len(world.placed("train")) == 2


def test_a_reserve_larger_than_the_cluster_keeps_others_out_and_says_so() -> None:
    world = reserved_world("1000")
    world.gang("train", 1, "train")
    world.gang("notebook", 1, "notebooks")
    world.run(5)
    assert not world.placed("train")
    assert world.placed("notebook")
    assert world.condition("train")["reason"] == "ReservedForOthers"


def test_a_reserve_of_places_is_kept_on_whole_nodes() -> None:
    """Spread as they are, others would leave four free GPUs on no node."""
    world = reserved_world("2x4")
    for i in range(20):
        world.gang(f"train-{i:02d}", 1, "train")
    world.run(5)
    said = world.condition("train-19")["message"]
    world.gang("notebook", 2, "notebooks", gpus=4)
    world.run(5)
    assert len(world.placed("train")) == 8
    assert len(world.placed("notebook")) == 2
    assert "queue build keeps 8 GPUs (by 4 on one node) in reserve, of which 8 are unused" in said


def test_others_may_take_what_makes_no_place() -> None:
    """Two nodes of eight have four places of four; with one GPU used, three, and three singles."""
    world = reserved_world("3x4")
    world.gang("other", 1, "train")
    world.run(3)
    for i in range(20):
        world.gang(f"train-{i:02d}", 1, "train")
    world.run(5)
    assert len(world.placed("train")) == 3


def test_a_reserve_counts_places_only_where_its_queue_may_run() -> None:
    world = reserved_world("8")
    annotate(world, "build", {L.NODE_POOLS: "gold"})
    for i in range(20):
        world.gang(f"train-{i:02d}", 1, "train")
    world.run(5)
    assert len(world.placed("train")) == 16  # no node is gold: there is nothing to keep

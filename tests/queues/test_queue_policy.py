"""What a queue says about the gangs in it: where they go, how, and which may run at all."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.admission import default_admission
from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Invalid
from tests.control import objects
from tests.control.world import World

from .worlds import annotate

POOL, PRODUCT = "cloud.google.com/gke-nodepool", L.GPU_PRODUCT
H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"


def mixed() -> World:
    """Two pools with other cards, and a node without any."""
    world = World(nodes=0)
    for name, pool, product in (
        ("a-0", "blue", A100),
        ("a-1", "blue", A100),
        ("h-0", "green", H100),
        ("h-1", "green", H100),
    ):
        labels = {POOL: pool, PRODUCT: product}
        world.store.create(kinds.NODE, objects.node(name, 8, labels=labels))
    world.store.create(kinds.NODE, objects.node("cpu", 0))
    world.queue("root")
    world.queue("team", "root")
    world.queue("free")
    return world


def nodes_of(world: World, name: str) -> set[str]:
    return set(world.placed(name).values())


@pytest.mark.parametrize(
    ("key", "value", "where"),
    [
        (L.NODE_POOLS, "green", {"h-0", "h-1"}),
        (L.NODE_POOLS, "green,blue", {"a-0", "a-1", "h-0", "h-1"}),
        (L.GPU_TYPES, "H100", {"h-0", "h-1"}),
        (L.GPU_TYPES, "a100", {"a-0", "a-1"}),
        (L.GPU_TYPES, H100, {"h-0", "h-1"}),
    ],
)
@pytest.mark.parametrize("queue", ["root", "team"])
def test_gangs_stay_on_the_nodes_that_their_queue_may_use(
    queue: str, key: str, value: str, where: set[str]
) -> None:
    world = mixed()
    annotate(world, queue, {key: value})
    for i in range(len(where) * 2):
        world.gang(f"job-{i}", 1, "team", gpus=4)
    world.run(3)
    assert nodes_of(world, "job") == where


def test_the_same_pods_of_another_queue_go_anywhere() -> None:
    world = mixed()
    annotate(world, "team", {L.NODE_POOLS: "green"})
    world.gang("mine", 2, "team", gpus=8)
    world.gang("theirs", 2, "free", gpus=8)
    world.run(3)
    assert nodes_of(world, "mine") == {"h-0", "h-1"}
    assert nodes_of(world, "theirs") == {"a-0", "a-1"}


def test_gpu_types_do_not_concern_pods_without_gpus() -> None:
    world = mixed()
    annotate(world, "team", {L.GPU_TYPES: "H100"})
    world.gang("cpu-only", 1, "team", gpus=0)
    world.run(3)
    assert nodes_of(world, "cpu-only") == {"cpu"}


def test_what_no_node_offers_is_explained() -> None:
    world = mixed()
    annotate(world, "team", {L.GPU_TYPES: "B200"})
    world.gang("job", 1, "team")
    world.run(8)
    said = world.condition("job")
    assert said["reason"] == "QueueNodePoolMismatch"
    assert "its queue may not use" in said["message"]


def test_a_change_of_the_queue_is_obeyed_at_once() -> None:
    world = mixed()
    annotate(world, "team", {L.NODE_POOLS: "none-such"})
    world.gang("job", 1, "team")
    world.run(3)
    assert not world.placed("job")
    annotate(world, "team", {L.NODE_POOLS: None})
    world.run(3)
    assert world.placed("job")


def test_queues_lay_out_their_pods_differently() -> None:
    world = mixed()
    annotate(world, "team", {L.PLACEMENT_STRATEGY: "spread"})
    for i in range(3):
        world.gang(f"wide-{i}", 1, "team")
    world.run(3)
    assert len(nodes_of(world, "wide")) == 3
    for i in range(3):
        world.gang(f"dense-{i}", 1, "free")
    world.run(3)
    assert len(nodes_of(world, "dense")) == 1


def test_only_allowed_priority_classes_start() -> None:
    world = mixed()
    annotate(world, "root", {L.ALLOWED_PRIORITY_CLASSES: "train, build"})
    world.gang("good", 1, "team", priorityClassName="train")
    world.gang("bad", 1, "team", priorityClassName="inference")
    world.gang("silent", 1, "team")
    world.gang("elsewhere", 1, "free", priorityClassName="inference")
    world.run(3)
    assert set(world.placed()) == {"good-00", "elsewhere-00"}
    for name in ("bad", "silent"):
        said = world.condition(name)
        assert said["reason"] == "PriorityNotAllowed"
        assert "allowed-priority-classes" in said["message"]


def test_the_default_priority_is_for_gangs_that_name_none() -> None:
    world = World(nodes=1, gpus=1)
    for queue, default in (("team", "inference"),):
        world.queue(queue)
        annotate(world, queue, {L.DEFAULT_PRIORITY_CLASS: default})
    world.gang("a-named", 1, "team", priorityClassName="train")
    world.gang("b-silent", 1, "team")
    world.run(3)
    assert set(world.placed()) == {"b-silent-00"}


def test_a_default_counts_as_allowed() -> None:
    world = mixed()
    annotate(
        world,
        "team",
        {L.DEFAULT_PRIORITY_CLASS: "build", L.ALLOWED_PRIORITY_CLASSES: "build"},
    )
    world.gang("silent", 1, "team")
    world.run(3)
    assert world.placed("silent")


BAD: list[tuple[str, str, str]] = [
    (L.PLACEMENT_STRATEGY, "diagonal", "neither binpack nor spread"),
    (L.DEFAULT_PRIORITY_CLASS, "a b", "priority class"),
    (L.ALLOWED_PRIORITY_CLASSES, "train,,build", "separated by commas"),
    (L.ALLOWED_PRIORITY_CLASSES, "", "separated by commas"),
    (L.ALLOWED_PRIORITY_CLASSES, ",".join(f"c{i}" for i in range(65)), "at most 64"),
    (L.NODE_POOLS, "x" * 64, "label value"),
    (L.NODE_POOLS, "blue;green", "separated by commas"),
    (L.GPU_TYPES, "H 100", "label value"),
    (L.MAX_RUN_TIME, "-1s", "0s or more"),
    (L.MAX_RUN_TIME, "soon", "such as 12h"),
    (L.MAX_RUN_TIME, "12", "such as 12h"),
    (L.RESERVED_GPUS, "-1", "whole number"),
    (L.RESERVED_GPUS, "NaN", "whole number"),
    (L.RESERVED_GPUS, "1.5", "whole number"),
    (L.RESERVED_GPUS, "1e99", "whole number"),
    (L.DRAIN_DEADLINE, "tomorrow", "RFC 3339"),
]


@pytest.mark.parametrize(("key", "value", "words"), BAD)
def test_a_queue_that_says_what_cannot_be_is_refused(key: str, value: str, words: str) -> None:
    world = World(admission=tuple(default_admission()))
    queue: dict[str, Any] = objects.queue("team")
    queue["metadata"]["annotations"] = {key: value}
    with pytest.raises(Invalid) as error:
        world.store.create(kinds.QUEUE, queue)
    assert f"metadata.annotations[{key}]" in str(error.value)
    assert words in str(error.value)
    world.store.create(kinds.QUEUE, objects.queue("team"))
    with pytest.raises(Invalid):
        annotate(world, "team", {key: value})


@pytest.mark.parametrize(("key", "value", "words"), BAD)
def test_one_that_got_past_admission_is_inert_and_named(key: str, value: str, words: str) -> None:
    world = World()
    world.queue("team")
    world.queue("other")
    annotate(world, "team", {key: value})
    world.gang("job", 1, "team")
    world.gang("theirs", 1, "other")
    world.run(5)
    assert not world.placed("job")
    assert world.placed("theirs")
    conditions = world.store.get(kinds.QUEUE, "team")["status"]["conditions"]
    ready = next(c for c in conditions if c["type"] == "Ready")
    assert ready["status"] == "False"
    assert key in ready["message"] and words in ready["message"]
    assert world.condition("job")["reason"] == "Misconfigured"


def test_a_default_outside_the_allowed_is_refused() -> None:
    world = World(admission=tuple(default_admission()))
    queue: dict[str, Any] = objects.queue("team")
    queue["metadata"]["annotations"] = {
        L.DEFAULT_PRIORITY_CLASS: "train",
        L.ALLOWED_PRIORITY_CLASSES: "build",
    }
    with pytest.raises(Invalid, match="not among the allowed"):
        world.store.create(kinds.QUEUE, queue)

"""What objects become: requests, states, queues, gangs, shards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key
from kai_ray.encode import EncodeConfig, Encoded, Encoder
from kai_ray.encode import requests as requests_
from kai_ray.scheduler import decide
from kai_ray.scheduler.snapshot import CPU, GPU, MEMORY, TaskState

from . import objects
from .encoding import NOW, api_object, encoded


def _class_of(found: Encoded, pod: str) -> int:
    names = found.names
    rows = [i for i in range(found.snapshot.tasks.count) if names.pod(i).name == pod]
    return int(found.snapshot.tasks.klass[rows[0]])


def _container(cpu: str, gpu: str = "", **more: Any) -> dict[str, Any]:
    found = {"cpu": cpu, **({"nvidia.com/gpu": gpu} if gpu else {})}
    return {"name": "c", "resources": {"requests": found}, **more}


_SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [_container("1"), _container("2")]}, 3000),
        ({"containers": [_container("1")], "initContainers": [_container("4")]}, 4000),
        ({"containers": [_container("1")], "initContainers": [_container("4", **_SIDECAR)]}, 5000),
        (  # a sidecar declared before an ordinary one runs beside it
            {
                "containers": [_container("1")],
                "initContainers": [_container("2", **_SIDECAR), _container("3")],
            },
            5000,
        ),
        (  # one declared after it does not
            {
                "containers": [_container("1")],
                "initContainers": [_container("3"), _container("2", **_SIDECAR)],
            },
            3000,
        ),
        ({"containers": [_container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000),
        ({"containers": [_container("1")], "resources": {"requests": {"cpu": "7"}}}, 7000),
        ({"containers": [{"name": "c"}]}, 0),
    ],
)
def test_effective_requests(spec: dict[str, Any], cpu: int) -> None:
    assert dict(requests_.effective(spec)).get("cpu", 0) == cpu


def test_gpus_of_all_vendors_are_one_row_and_others_have_their_own() -> None:
    tpu = objects.pod("tpu", "g", gpus=0, requests={"google.com/tpu": "4"})
    amd = objects.pod("amd", "g", gpus=0, requests={"amd.com/gpu": "2"})
    node = objects.node("n", 0, allocatable={"amd.com/gpu": "8", "google.com/tpu": "4"})
    s = encoded(node, tpu, amd).snapshot
    assert s.resources == ("cpu", "memory", "gpu", "pods", "google.com/tpu")
    assert s.nodes.allocatable[:, 0].tolist() == [64000, 256 * 2**30, 8, 110, 4]
    assert sorted(s.classes.request[GPU].tolist()) == [0, 2]


def test_a_pod_goes_to_a_gpu_of_its_own_vendor() -> None:
    amd = objects.pod("amd", "g", gpus=0, requests={"amd.com/gpu": "2"})
    nodes = objects.node("nv", 8), objects.node("ro", 0, allocatable={"amd.com/gpu": "2"})
    found = encoded(*nodes, amd)
    plan = decide(found.snapshot)
    assert [found.names.node(n) for n in plan.bind_node] == ["ro"]


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, TaskState.PENDING),
        ({"schedulingGates": [{"name": "wait"}]}, TaskState.GATED),
        ({"node": "n", "phase": "Pending"}, TaskState.BOUND),
        ({"node": "n", "phase": "Running"}, TaskState.RUNNING),
        ({"node": "n", "phase": "Succeeded"}, TaskState.SUCCEEDED),
    ],
)
def test_states(change: dict[str, Any], state: TaskState) -> None:
    found = encoded(objects.node("n"), objects.pod("p", "g", **change))
    assert found.snapshot.tasks.state.tolist() == [state]


def test_a_pod_that_is_overdue_in_deletion_is_stuck_after_two_minutes() -> None:
    leaving = objects.pod("p", "g", node="n", phase="Running")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    encoder = Encoder()
    for resource, obj in (
        (kinds.NODE, objects.node("n")),
        (kinds.POD_GROUP, objects.podgroup("g")),
        (kinds.POD, leaving),
    ):
        encoder.apply(resource, None, obj)
    states = [encoder.snapshot(NOW + s).snapshot.tasks.state[0] for s in (0, 149, 151)]
    assert states == [TaskState.RELEASING, TaskState.RELEASING, TaskState.STUCK]
    assert encoder.next_stuck_s(NOW) == NOW + 150


def test_failed_pods_and_pods_that_leave_before_they_had_a_node_do_not_exist() -> None:
    leaving = objects.pod("q", "g")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    found = encoded(objects.node("n"), objects.pod("p", "g", phase="Failed"), leaving)
    assert found.snapshot.tasks.count == 0


def test_foreign_pods_occupy_room_and_are_taken_off_the_total() -> None:
    theirs = objects.pod("x", scheduler="other", node="n", gpus=3, phase="Running")
    pending = objects.pod("y", scheduler="other", gpus=3)
    s = encoded(objects.node("n"), theirs, pending).snapshot
    assert s.tasks.gang.tolist() == [-1]
    assert s.total[GPU] == 5


def test_the_total_counts_usable_nodes_only() -> None:
    s = encoded(
        objects.node("a"), objects.node("b", ready=False), objects.node("c", cordoned=True)
    ).snapshot
    assert s.total.tolist() == [64000, 256 * 2**30, 8]


@pytest.mark.parametrize("kind", ["MemoryPressure", "DiskPressure", "PIDPressure"])
def test_a_node_under_pressure_is_not_ready(kind: str) -> None:
    node = objects.node("a")
    node["status"]["conditions"].append({"type": kind, "status": "Unknown"})
    assert not encoded(node).snapshot.nodes.ready[0]


def test_pods_of_a_managed_namespace_are_ours_without_our_name() -> None:
    space = api_object("Namespace", "default", namespace="")
    pod = objects.pod("p", "g", scheduler="default-scheduler")
    assert encoded(space, pod).snapshot.tasks.count == 0
    space["metadata"]["labels"] = {"kai.scheduler/managed": "true"}
    assert encoded(space, pod).snapshot.tasks.count == 1


def test_only_what_belongs_to_the_node_pool_is_seen() -> None:
    mine = objects.node("mine", labels={"kai.scheduler/node-pool": "a"})
    config = EncodeConfig(node_pool="a")
    assert encoded(mine, objects.node("n")).names.nodes == ["n"]
    pool = encoded(mine, objects.node("n"), config=config)
    assert (pool.names.nodes, pool.names.queues, pool.names.gangs) == (["mine"], [], [])


def test_queues_keep_their_order_and_what_is_outside_the_tree_is_named() -> None:
    found = encoded(
        objects.queue("b", "a"),
        objects.queue("a"),
        objects.queue("lost", "nowhere"),
        objects.queue("lost-too", "lost"),
        objects.queue("x", "y"),
        objects.queue("y", "x"),
    )
    assert found.names.queues == ["a", "team", "b"]
    assert found.snapshot.queues.parent.tolist() == [-1, -1, 0]
    named = {p.name: p.mend for p in found.problems}
    assert set(named) == {"lost", "lost-too", "x", "y"}
    assert "cycle" in named["x"] and "nowhere" in named["lost"]


def test_a_pause_reaches_all_below() -> None:
    above = objects.queue("a")
    above["metadata"]["annotations"] = {"kai.scheduler/paused": "true"}
    found = encoded(above, objects.queue("b", "a"))
    assert dict(zip(found.names.queues, found.snapshot.queues.paused, strict=True)) == {
        "a": True,
        "b": True,
        "team": False,
    }


def test_queue_amounts_have_the_units_of_the_arrays() -> None:
    queue = objects.queue("q")
    queue["spec"]["resources"] = {
        "cpu": {"quota": 1500, "limit": -1},
        "memory": {"quota": 2, "limit": 4, "overQuotaWeight": 3},
    }
    found = encoded(queue)
    q, row = found.snapshot.queues, found.names.queues.index("q")
    assert q.quota[:, row].tolist() == [1500, 2e6, 0]
    assert q.limit[:, row].tolist() == [-1, 4e6, 0]
    assert q.weight[:, row].tolist() == [0, 3, 0]


@pytest.mark.parametrize(
    ("spec", "priority", "preemptible"),
    [
        ({}, 50, True),
        ({"priorityClassName": "high"}, 120, False),
        ({"priorityClassName": "missing"}, 50, True),
        ({"priorityClassName": "high", "preemptibility": "preemptible"}, 120, True),
        ({"preemptibility": "non-preemptible"}, 50, False),
    ],
)
def test_priority_and_preemptibility(
    spec: dict[str, Any], priority: int, preemptible: bool
) -> None:
    high = api_object("PriorityClass", "high", "scheduling.k8s.io/v1", "", value=120)
    found = encoded(high, objects.podgroup("h", **spec))
    row = found.names.gangs.index(Key("default", "h"))
    gangs = found.snapshot.gangs
    assert (gangs.priority[row], gangs.preemptible[row]) == (priority, preemptible)


def test_the_global_default_class_stands_in_for_a_missing_one() -> None:
    default = api_object(
        "PriorityClass", "d", "scheduling.k8s.io/v1", "", value=70, globalDefault=True
    )
    assert encoded(default).snapshot.gangs.priority.tolist() == [70]


def test_a_tree_of_subgroups() -> None:
    subgroups = [
        {"name": "head", "minMember": 1},
        {"name": "workers", "minSubGroup": 1},
        {"name": "w-0", "parent": "workers", "minMember": 2},
        {"name": "w-1", "parent": "workers", "minMember": 0},
    ]
    found = encoded(objects.podgroup("t", minimum=None, subGroups=subgroups))
    row = found.names.gangs.index(Key("default", "t"))
    s = found.snapshot.subgroups
    mine = np.flatnonzero(s.gang == row)
    root = mine[0]
    assert found.names.leaf_names[Key("default", "t")][1:] == ("head", "workers", "w-0", "w-1")
    assert s.leaf[mine].tolist() == [False, True, False, True, True]
    assert s.minimum[mine].tolist() == [2, 1, 1, 2, 0]
    assert (s.parent[mine] - np.where(s.parent[mine] < 0, 0, root)).tolist() == [-1, 0, 0, 2, 2]


def test_pods_find_their_gang_through_the_membership_when_they_carry_none() -> None:
    known: dict[str, str] = {}
    encoder = Encoder(member_of=lambda pod: (known[pod["metadata"]["name"]], "") if known else None)
    encoder.apply(kinds.POD_GROUP, None, objects.podgroup("g"))
    encoder.apply(kinds.POD, None, objects.pod("p"))
    first = encoder.snapshot(NOW)
    assert (first.snapshot.tasks.count, len(first.orphans)) == (0, 1)
    known["p"] = "g"
    second = encoder.snapshot(NOW)
    assert (second.snapshot.tasks.gang.tolist(), second.orphans) == ([0], ())


def test_an_assumed_pod_counts_until_it_is_another_pod() -> None:
    encoder = Encoder()
    encoder.apply(kinds.NODE, None, objects.node("n"))
    encoder.apply(kinds.POD_GROUP, None, objects.podgroup("g"))
    pod = objects.pod("p", "g", uid="one")
    encoder.apply(kinds.POD, None, pod)
    encoder.assume(Key("default", "p"), "one", "n")
    assert encoder.snapshot(NOW).snapshot.tasks.state.tolist() == [TaskState.BINDING]
    encoder.apply(kinds.POD, pod, objects.pod("p", "g", uid="two"))
    assert encoder.snapshot(NOW).snapshot.tasks.state.tolist() == [TaskState.PENDING]


def test_rows_of_requests_are_named_by_resource() -> None:
    found = encoded(objects.node("n"), objects.pod("p", "g", gpus=2, cpu="500m"))
    c = _class_of(found, "p")
    request = found.snapshot.classes.request[:, c]
    assert (request[CPU], request[MEMORY], request[GPU]) == (500, 0, 2)


def test_large_nodes_are_read() -> None:
    node = objects.node("big", allocatable={"ephemeral-storage": "100Ti", "memory": "24Ti"})
    found = encoded(node)
    assert not found.problems
    assert found.snapshot.total[MEMORY] == 24 * 2**40


@pytest.mark.parametrize(
    ("message", "row"),
    [
        ("WaitingForVictims: others leave for it", -1),
        ("WaitingForRelease: 1 pod next in line", -1),
        ("InsufficientGpu: no room", 0),
        (None, 0),
    ],
)
def test_a_node_named_by_others_is_a_wish_and_one_we_named_is_news(
    message: str | None, row: int
) -> None:
    """What we told a pod must not keep it waiting when another node is free."""
    pod = objects.pod("p", "g")
    pod["status"]["nominatedNodeName"] = "n"
    if message is not None:
        said = {"type": "PodScheduled", "status": "False", "message": message}
        pod["status"]["conditions"] = [said]
    found = encoded(objects.node("n"), objects.queue("team"), objects.podgroup("g"), pod)
    assert found.snapshot.tasks.nominated.tolist() == [row]

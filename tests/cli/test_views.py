"""Rows that users read: what a job, a queue and a node look like for given objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.api import labels as L
from kai_ray.cli.views import queues as columns
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.sight import node_list as nodes
from kai_ray.sight import queue_list as queues
from kai_ray.sight.jobs import gangs, owners, pods
from kai_ray.sight.jobs import listing as jobs


def pod(name: str, group: str, phase: str = "Pending", node: str = "", gpus: int = 1) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"pod-group-name": group},
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus}}}],
        },
        "status": {"phase": phase},
    }


def group(
    name: str, *, minimum: int = 2, reason: str = "", created: str = "", **spec: Any
) -> Object:
    conditions = [
        {"type": "Scheduled", "status": "False", "reason": reason, "message": f"{reason}."}
    ]
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "creationTimestamp": created or "2026-01-01T00:00:00Z",
            "ownerReferences": [
                {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": name, "uid": "u"}
            ],
        },
        "spec": {"queue": "a", "minMember": minimum, **spec},
        "status": {"conditions": conditions if reason else []},
    }


def one(world: jobs.World) -> jobs.Job:
    (job,) = jobs.build(world)
    return job


@pytest.mark.parametrize(
    ("story", "phases", "nodes_", "status"),
    [
        ("no pod is placed", ["Pending", "Pending"], ["", ""], "Waiting"),
        ("placed, containers are starting", ["Pending", "Pending"], ["n", "n"], "Starting"),
        ("one runs, the other is starting", ["Running", "Pending"], ["n", "n"], "Starting"),
        ("the whole gang runs", ["Running", "Running"], ["n", "n"], "Running"),
        ("one is done, the other still runs", ["Succeeded", "Running"], ["n", "n"], "Running"),
        ("all are done", ["Succeeded", "Succeeded"], ["n", "n"], "Succeeded"),
        ("one failed", ["Succeeded", "Failed"], ["n", "n"], "Failed"),
        ("no pod exists yet", [], [], "Waiting"),
    ],
)
def test_a_job_stands_where_its_pods_stand(
    story: str, phases: list[str], nodes_: list[str], status: str
) -> None:
    members = [
        pod(f"p{i}", "g", phase, node)
        for i, (phase, node) in enumerate(zip(phases, nodes_, strict=True))
    ]
    assert one(jobs.World([group("g")], members)).status == status, story


def test_what_the_workload_itself_reports_as_its_end_counts_more_than_its_pods() -> None:
    owner = {
        "metadata": {"name": "g", "namespace": "default"},
        "status": {"conditions": [{"type": "Failed", "status": "True"}]},
    }
    world = jobs.World([group("g")], [pod("p", "g", "Succeeded")], {R.PYTORCH_JOB: [owner]})
    assert one(world).status == "Failed"


def test_a_suspended_job_without_a_gang_is_listed() -> None:
    owner = {
        "metadata": {"name": "t", "namespace": "default", "labels": {"kai.scheduler/queue": "a"}},
        "spec": {"runPolicy": {"suspend": True}},
    }
    job = one(jobs.World([], [], {R.PYTORCH_JOB: [owner]}))
    assert (job.name, job.kind, job.queue, job.status) == ("t", "PyTorchJob", "a", "Suspended")


def test_pods_that_leave_are_not_counted_beside_those_that_take_their_place() -> None:
    leaving = [pod(f"old-{i}", "pg", "Running", "n0", gpus=8) for i in (0, 1)]
    for one_of in leaving:
        one_of["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    coming = [pod(f"new-{i}", "pg", gpus=8) for i in (0, 1)]
    both, last = gangs.gang(group("pg"), leaving + coming), gangs.gang(group("pg"), leaving)
    assert (both.pods, both.gpus, both.nodes) == (2, 16, ())
    assert (last.pods, last.gpus, last.nodes) == (2, 16, ("n0",))


def test_a_job_that_another_workload_owns_is_not_listed_by_itself() -> None:
    reference = {"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "1", "controller": True}
    child = {
        "metadata": {"name": "t", "namespace": "default", "ownerReferences": [reference]},
        "spec": {"suspend": True},
    }
    assert jobs.build(jobs.World([], [], {R.JOB: [child]})) == []


def test_positions_count_within_a_queue_by_priority_then_age() -> None:
    world = jobs.World(
        [
            group("old", created="2026-01-01T00:00:00Z"),
            group("new", created="2026-01-03T00:00:00Z"),
            group("urgent", created="2026-01-02T00:00:00Z", priorityClassName="build"),
            group("elsewhere", queue="b"),
            group("runs", minimum=1),
        ],
        [pod("p", "runs", "Running", "n")],
        priorities={"build": 100},
    )
    assert {j.name: j.position for j in jobs.build(world)} == {
        "urgent": 1,
        "old": 2,
        "new": 3,
        "elsewhere": 1,
        "runs": None,
    }


def test_the_gangs_of_one_workload_are_one_row() -> None:
    note = '{"kind": "RayService", "group": "ray.io", "version": "v1", "name": "serve"}'
    groups = [group("old"), group("new", reason="InsufficientGpu")]
    for one_group in groups:
        one_group["metadata"]["annotations"] = {"kai.scheduler/top-owner-metadata": note}
    members = [pod("a", "old", "Running", "n1"), pod("b", "old", "Running", "n2")]
    job = one(jobs.World(groups, members))
    assert job.printed_name == "rayservice.ray.io/serve"
    assert job.status == "Starting"
    assert (job.running, job.wanted, job.reason) == (2, 4, "InsufficientGpu")


@pytest.mark.parametrize(
    "note",
    [
        "name: serve\nuid: 1\ngroup: ray.io\nversion: v1\nkind: RayService\n",
        'name: "serve"\nuid: ""\ngroup: ray.io\nversion: v1\nkind: RayService\n',
    ],
)
def test_the_top_owner_is_read_from_kais_own_annotation(note: str) -> None:
    obj = {"metadata": {"name": "g", "annotations": {"kai.scheduler/top-owner-metadata": note}}}
    assert owners.owner_of(obj) == ("ray.io/v1", "RayService", "serve")


def test_the_minimum_of_a_tree_is_the_cheapest_way_to_satisfy_it() -> None:
    spec = {
        "minSubGroup": 1,
        "subGroups": [
            {"name": "a", "minSubGroup": 2},
            {"name": "a0", "parent": "a", "minMember": 3},
            {"name": "a1", "parent": "a", "minMember": 4},
            {"name": "b", "minMember": 5},
        ],
    }
    assert gangs.minimum(spec) == 5
    assert gangs.minimum({**spec, "minSubGroup": None}) == 12
    assert gangs.minimum({}) == 1


def test_a_pods_gpus_count_init_containers_sidecars_and_fractions() -> None:
    def devices(n: int, **more: Any) -> Object:
        return {"resources": {"requests": {"nvidia.com/gpu": str(n)}}, **more}

    spec = {
        "initContainers": [devices(1, restartPolicy="Always"), devices(6)],
        "containers": [devices(2), devices(1)],
    }
    assert pods.gpus({"metadata": {}, "spec": spec}) == 7  # the init container beside the sidecar
    note = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}
    assert pods.gpus({"metadata": {"annotations": note}}) == 1.0
    assert pods.gpus({"metadata": {"annotations": {"gpu-fraction": "some"}}}) == 0.0


def queue(name: str, parent: str = "", quota: float = 0, **status: Any) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {"parentQueue": parent, "resources": {"gpu": {"quota": quota, "limit": -1}}},
        "status": status,
    }


def test_queues_stand_below_their_parents() -> None:
    rows = queues.build(
        [queue("b"), queue("a2", "a"), queue("a"), queue("a1", "a"), queue("o", "?")]
    )
    assert [(q.name, q.depth) for q in rows] == [
        ("a", 0),
        ("a1", 1),
        ("a2", 1),
        ("b", 0),
        ("o", 0),
    ]


def test_queues_that_go_round_in_a_circle_are_listed_once() -> None:
    rows = queues.build([queue("x", "y"), queue("y", "x"), queue("z")])
    assert sorted(q.name for q in rows) == ["x", "y", "z"]


def test_a_queue_that_uses_more_than_its_quota_borrows() -> None:
    row = queues.queue(
        queue("a", quota=4, allocated={"nvidia.com/gpu": "6"}, requested={"nvidia.com/gpu": "9"})
    )
    assert (row.gpu.borrowed, row.gpu.pending, row.gpu.fair_share) == (2, 3, None)
    unlimited = queues.queue(queue("a", quota=-1, allocated={"nvidia.com/gpu": "6"}))
    assert unlimited.gpu.borrowed == 0


def test_amounts_of_a_queues_status_come_in_the_units_of_its_spec() -> None:
    row = queues.queue(queue("a", allocated={"cpu": "1500m", "memory": "2Gi"}))
    assert row.cpu.allocated == 1500
    assert row.memory.allocated == pytest.approx(2 * 2**30 / 1e6)
    assert (columns.cores(1500), columns.megabytes(-1), columns.megabytes(2500)) == (
        "1.5",
        "unlimited",
        "2.5G",
    )


def node(name: str, gpus: int = 8, **status: Any) -> Object:
    allocatable = {"nvidia.com/gpu": str(gpus), "pods": "110", "cpu": "96"}
    return {
        "metadata": {"name": name},
        "spec": {},
        "status": {"allocatable": allocatable, **status},
    }


def test_nodes_show_what_live_pods_leave_free() -> None:
    rows = nodes.build(
        [node("n-10"), node("n-2")],
        [
            pod("a", "g", "Running", "n-2", gpus=3),
            pod("b", "g", "Succeeded", "n-2", gpus=4),
            pod("c", "g", "Pending", "", gpus=4),
        ],
    )
    assert [(n.name, n.free, n.fragment) for n in rows] == [
        ("n-2", 5, "part"),
        ("n-10", 8, "whole"),
    ]


def test_equal_nodes_fold_into_ranges() -> None:
    rows = nodes.build([node(f"n-{i}") for i in (0, 1, 2, 5, 11)] + [node("n"), node("m")], [])
    assert [(r.name, r.count) for r in nodes.fold(rows)] == [
        ("m", 1),
        ("n", 1),
        ("n-[0-2,5,11]", 5),
    ]


@given(st.sets(st.integers(0, 300), min_size=2))
def test_ranges_say_exactly_the_names_they_fold(numbers: set[int]) -> None:
    text = nodes.ranges([f"node-{n}" for n in numbers])
    assert text.startswith("node-[")
    said: set[int] = set()
    for part in text[len("node-[") : -1].split(","):
        first, _, last = part.partition("-")
        said |= set(range(int(first), int(last or first) + 1))
    assert said == numbers


def test_a_node_that_is_down_or_cordoned_says_so() -> None:
    down = node("n", conditions=[{"type": "Ready", "status": "False"}])
    down["spec"]["unschedulable"] = True
    assert nodes.node(down, []).state == "NotReady,Cordoned"


def test_a_queue_shows_who_is_told_and_no_address_that_is_a_password() -> None:
    notes = {L.NOTIFY: "ops, https://hooks.slack.com/services/T0/B0/s3cret", L.NOTIFY_ON: "idle"}
    rows = queues.build([{"metadata": {"name": "top", "annotations": notes}, "spec": {}}])
    shown = dict(queues.policies(rows[0], rows))
    assert shown["Notifies"] == "ops, hooks.slack.com" and shown["Notifies of"] == "idle"


def test_a_queue_shows_what_it_inherits_and_from_whom() -> None:
    def queue(name: str, parent: str, notes: dict[str, str], **spec: str) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "annotations": notes},
            "spec": {"parentQueue": parent, **spec},
        }

    rows = queues.build(
        [
            queue(
                "top", "", {L.NODE_POOLS: "gold", L.RESERVED_GPUS: "4x2"}, reclaimMinRuntime="1h"
            ),
            queue("mid", "top", {L.MAX_RUN_TIME: "2h"}),
            queue("leaf", "mid", {L.NODE_POOLS: "iron"}),
        ]
    )
    leaf = next(row for row in rows if row.name == "leaf")
    shown = dict(queues.policies(leaf, rows))
    assert shown["Node pools"] == "iron"
    assert shown["Max run time"] == "2h (from queue mid)"
    assert shown["Min runtime, reclaim"] == "1h (from queue top)"
    assert shown["Reserved GPUs"] == ""  # a reserve is the queue's own
    assert shown["Placement"] == ""

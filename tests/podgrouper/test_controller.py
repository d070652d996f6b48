"""The podgrouper on a store: groups before pods, few reads, no idle writes, users' fields kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from kai_ray.api import labels as keys
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object, Write
from kai_ray.podgrouper.members import Members
from kai_ray.podgrouper.values import GroupError
from tests.podgrouper.world import (
    CONTAINER,
    TEMPLATE,
    World,
    ray_cluster,
    ray_labels,
    reference,
    worker_group,
)


@pytest.fixture
def world() -> World:
    return World()


def job(name: str = "j", **meta: object) -> Object:
    body = {"parallelism": 2, "completions": 2, "template": TEMPLATE}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **meta},
        "spec": {**body, "template": template},
    }


def test_the_group_is_there_before_the_first_pod(world: World) -> None:
    made = world.add(kinds.RAY_CLUSTER, ray_cluster())
    group = world.group()
    assert group["metadata"]["name"] == f"pg-rc-{made['metadata']['uid']}"
    assert group["spec"]["minMember"] == 3
    (owner,) = group["metadata"]["ownerReferences"]
    assert "blockOwnerDeletion" not in owner


def test_pods_are_stamped_at_admission_and_never_written_again(world: World) -> None:
    cluster = world.add(kinds.RAY_CLUSTER, ray_cluster())
    world.pod(cluster, "head", ray_labels("rc", "headgroup"))
    worker = world.pod(cluster, "w0", ray_labels("rc", "w"))
    assert worker["metadata"]["annotations"]["pod-group-name"].startswith("pg-rc-")
    assert worker["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "w"
    assert not [call for call in world.port.calls if call[1] == "Pod" and call[0] != "list"]


def test_a_thousand_workers_cost_one_look_at_their_owner(world: World) -> None:
    spec: Object = {"workerGroupSpecs": [worker_group(replicas=1000, maxReplicas=1000)]}
    cluster = world.add(kinds.RAY_CLUSTER, ray_cluster(**spec))
    world.port.calls.clear()
    pods = [
        {
            "metadata": {
                "name": f"w{i}",
                "namespace": "default",
                "labels": ray_labels("rc", "w"),
                "ownerReferences": [reference(cluster)],
            },
            "spec": {"containers": [CONTAINER]},
        }
        for i in range(1000)
    ]
    began = time.process_time()
    groups = {
        world.store.create(kinds.POD, pod)["metadata"]["annotations"]["pod-group-name"]
        for pod in pods
    }
    world.settle()
    spent = time.process_time() - began
    assert groups == {world.group()["metadata"]["name"]}
    assert sum(n for (method, _), n in world.port.calls.items() if method != "watch") <= 2
    assert spent < 5.0  # the store's own work included; the goal is 1 s on an idle machine


def test_an_index_over_a_port_alone_reads_each_owner_once(world: World) -> None:
    cluster = world.add(kinds.RAY_CLUSTER, ray_cluster())
    members = Members.over(world.port)  # type: ignore[arg-type]
    world.port.calls.clear()
    for i in range(50):
        pod = {
            "metadata": {
                "name": f"p{i}",
                "namespace": "default",
                "labels": ray_labels("rc", "w"),
                "ownerReferences": [reference(cluster)],
            }
        }
        found = members.of(pod)
        assert found is not None
        assert found.subgroup == "w"
    assert world.port.calls["get", "RayCluster"] == 1
    assert sum(world.port.calls.values()) < 10


def test_nothing_is_written_while_nothing_changes(world: World) -> None:
    cluster = world.add(kinds.RAY_CLUSTER, ray_cluster())
    world.pod(cluster, "head", ray_labels("rc", "headgroup"))
    version = world.group()["metadata"]["resourceVersion"]
    status = {"status": {"state": "ready", "readyWorkerReplicas": 2}}
    world.change(kinds.RAY_CLUSTER, "rc", status, subresource="status")
    world.settle(600)
    assert world.group()["metadata"]["resourceVersion"] == version


def test_what_users_and_the_scheduler_set_stays(world: World) -> None:
    world.add(kinds.RAY_CLUSTER, ray_cluster())
    name = world.group()["metadata"]["name"]
    own = {"queue": "elsewhere", "markUnschedulable": False, "schedulingBackoff": 1}
    world.change(kinds.POD_GROUP, name, {"spec": own})
    groups = [worker_group(replicas=5, maxReplicas=9)]
    world.change(kinds.RAY_CLUSTER, "rc", {"spec": {"workerGroupSpecs": groups}})
    spec = world.group()["spec"]
    assert own.items() <= spec.items()
    assert spec["minMember"] == 6


def test_relabelling_the_workload_moves_it(world: World) -> None:
    world.add(kinds.RAY_CLUSTER, ray_cluster())
    label = {"metadata": {"labels": {"kai.scheduler/queue": "team-b"}}}
    world.change(kinds.RAY_CLUSTER, "rc", label)
    group = world.group()
    assert group["spec"]["queue"] == "team-b"
    assert group["metadata"]["labels"]["kai.scheduler/queue"] == "team-b"


def test_a_deleted_group_comes_back(world: World) -> None:
    world.add(kinds.RAY_CLUSTER, ray_cluster())
    world.store.delete(kinds.POD_GROUP, world.group()["metadata"]["name"], "default")
    world.settle()
    assert world.group()


# ------------------------------------------------------------------ Ray


def bind(world: World, *names: str) -> None:
    for name in names:
        world.store.bind("default", name, "n")
    world.settle()


def test_growth_by_hand_raises_the_floor_only_as_pods_run(world: World) -> None:
    cluster = world.add(kinds.RAY_CLUSTER, ray_cluster())
    world.store.create(kinds.NODE, {"metadata": {"name": "n"}})
    world.pod(cluster, "head", ray_labels("rc", "headgroup"))
    for i in range(2):
        world.pod(cluster, f"w{i}", ray_labels("rc", "w"))
    bind(world, "head", "w0", "w1")
    groups = [worker_group(replicas=4, maxReplicas=9)]
    world.change(kinds.RAY_CLUSTER, "rc", {"spec": {"workerGroupSpecs": groups}})
    assert world.floors() == {"headgroup": 1, "w": 2}
    for i in (2, 3):
        world.pod(cluster, f"w{i}", ray_labels("rc", "w"))
    bind(world, "w2")
    assert world.floors()["w"] == 3
    bind(world, "w3")
    assert world.floors()["w"] == 4
    assert world.group()["spec"]["minMember"] == 5


def test_workers_of_a_suspended_group_keep_their_place_until_they_are_gone(world: World) -> None:
    cluster = world.add(kinds.RAY_CLUSTER, ray_cluster())
    world.pod(cluster, "w0", ray_labels("rc", "w"))
    groups = [worker_group(replicas=2, suspend=True)]
    world.change(kinds.RAY_CLUSTER, "rc", {"spec": {"workerGroupSpecs": groups}})
    assert world.floors() == {"headgroup": 1, "w": 0}


def test_pods_of_one_replica_share_a_leaf_by_label_or_by_seat(world: World) -> None:
    spec: Object = {"workerGroupSpecs": [worker_group(replicas=2, numOfHosts=2)]}
    cluster = world.add(kinds.RAY_CLUSTER, ray_cluster(**spec))
    key = "ray.io/worker-group-replica-index"
    labelled = world.pod(cluster, "a", ray_labels("rc", "w", **{key: "1"}))
    assert labelled["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "w-1"
    seats = [
        world.pod(cluster, f"p{i}", ray_labels("rc", "w"))["metadata"]["labels"][
            "kai.scheduler/subgroup-name"
        ]
        for i in range(3)
    ]
    assert seats == ["w-0", "w-0", "w-1"]
    world.store.delete(kinds.POD, "p1", "default", grace_s=0)
    world.settle()
    again = world.pod(cluster, "p3", ray_labels("rc", "w"))
    assert again["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "w-0"


def ray_job(world: World, name: str = "rj") -> Object:
    spec = {"entrypoint": "x", "rayClusterSpec": ray_cluster()["spec"]}
    return world.add(
        kinds.RAY_JOB,
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": name, "labels": {"kai.scheduler/queue": "team"}},
            "spec": spec,
        },
    )


def cluster_of(world: World, owner: Object, name: str) -> Object:
    cluster = ray_cluster(name)
    cluster["metadata"]["ownerReferences"] = [reference(owner)]
    return world.add(kinds.RAY_CLUSTER, cluster)


def test_a_submitter_finds_the_group_of_its_jobs_cluster(world: World) -> None:
    owner = ray_job(world)
    assert world.groups() == []
    cluster = cluster_of(world, owner, "rj-abc")
    world.change(
        kinds.RAY_JOB, "rj", {"status": {"rayClusterName": "rj-abc"}}, subresource="status"
    )
    group = world.group()
    assert group["metadata"]["name"] == f"pg-rj-abc-{cluster['metadata']['uid']}"
    assert group["spec"]["queue"] == "team"
    submit = job("rj")
    submit["metadata"]["ownerReferences"] = [reference(owner)]
    made = world.add(kinds.JOB, submit)
    pod = world.pod(made, "rj-x", {"job-name": "rj"})
    assert pod["metadata"]["annotations"]["pod-group-name"] == group["metadata"]["name"]
    assert pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "submitter"
    assert len(world.groups()) == 1


def test_a_retry_is_a_new_group_and_the_old_one_goes(world: World) -> None:
    owner = ray_job(world)
    cluster_of(world, owner, "rj-1")
    first = world.group()["metadata"]["name"]
    world.store.delete(kinds.RAY_CLUSTER, "rj-1", "default")
    cluster_of(world, owner, "rj-2")
    assert world.group()["metadata"]["name"] != first


def test_an_upgrade_of_a_service_has_two_groups_until_the_old_cluster_is_gone(
    world: World,
) -> None:
    service = world.add(
        kinds.RAY_SERVICE,
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayService",
            "metadata": {"name": "rs"},
            "spec": {"rayClusterConfig": ray_cluster()["spec"]},
        },
    )
    old = cluster_of(world, service, "rs-old")
    cluster_of(world, service, "rs-new")
    world.pod(old, "h", ray_labels("rs-old", "headgroup"))
    names = [g["metadata"]["name"] for g in world.groups()]
    assert [n[:9] for n in names] == ["pg-rs-new", "pg-rs-old"]
    world.store.delete(kinds.RAY_CLUSTER, "rs-old", "default", propagation="Orphan")
    world.settle()
    assert len(world.groups()) == 2
    world.store.delete(kinds.POD, "h", "default", grace_s=0)
    world.settle()
    assert [g["metadata"]["name"] for g in world.groups()] == names[:1]


# ------------------------------------------------------------------ other owners


def test_bare_pods_have_a_group_each(world: World) -> None:
    pod = world.pod(None, "alone")
    assert world.group()["metadata"]["name"] == f"pg-alone-{pod['metadata']['uid']}"
    assert pod["metadata"]["annotations"]["pod-group-name"] == world.group()["metadata"]["name"]


def test_a_users_own_group_is_left_alone(world: World) -> None:
    world.add(
        kinds.POD,
        {
            "metadata": {"name": "mine", "annotations": {"pod-group-name": "ours"}},
            "spec": {"containers": [CONTAINER]},
        },
    )
    assert world.groups() == []


@pytest.mark.parametrize("where", ["pod", "owner", "namespace"])
def test_whoever_asks_to_be_skipped_is(world: World, where: str) -> None:
    notes = {"kai.scheduler/skip-podgrouper": "true"}
    if where == "namespace":
        world.store.patch(kinds.NAMESPACE, "default", {"metadata": {"annotations": notes}})
        world.settle()
    owner = world.add(kinds.JOB, job(annotations=notes if where == "owner" else {}))
    pod = {
        "metadata": {
            "name": "p",
            "annotations": notes if where == "pod" else {},
            "ownerReferences": [reference(owner)],
        },
        "spec": {"containers": [CONTAINER]},
    }
    made = world.add(kinds.POD, pod)
    assert "pod-group-name" not in (made["metadata"].get("annotations") or {})
    assert len(world.groups()) == (1 if where == "pod" else 0)


def test_deployment_pods_are_grouped_one_by_one_and_follow_its_label(world: World) -> None:
    deployment = world.add(
        kinds.DEPLOYMENT,
        {
            "metadata": {"name": "d"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {**TEMPLATE, "metadata": {"labels": {"a": "b"}}},
            },
        },
    )
    made = world.add(
        kinds.REPLICA_SET,
        {
            "metadata": {"name": "d-1", "ownerReferences": [reference(deployment)]},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {**TEMPLATE, "metadata": {"labels": {"a": "b"}}},
            },
        },
    )
    for name in ("d-1-a", "d-1-b"):
        world.pod(made, name)
    assert len(world.groups()) == 2
    assert {g["spec"]["priorityClassName"] for g in world.groups()} == {"inference"}
    label = {"metadata": {"labels": {"kai.scheduler/queue": "team"}}}
    world.change(kinds.DEPLOYMENT, "d", label)
    assert {g["spec"]["queue"] for g in world.groups()} == {"team"}


def test_an_owner_of_a_kind_nobody_serves_is_one_group(world: World) -> None:
    owner = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "t", "uid": "u-1"},
    }
    for name in ("a", "b"):
        world.pod(owner, name)
    assert world.group()["metadata"]["name"] == "pg-t-u-1"


# ------------------------------------------------------------------ refusals


def condition(world: World, pod: str) -> Object:
    found = world.store.get(kinds.POD, pod, "default").get("status") or {}
    return next(c for c in found["conditions"] if c["type"] == "PodScheduled")


def test_a_workload_that_cannot_be_grouped_says_so_on_itself_and_its_pods(world: World) -> None:
    notes = {"kai.scheduler/min-member": "7"}
    owner = world.add(kinds.JOB, job(annotations=notes))
    world.pod(owner, "p")
    assert world.groups() == []
    assert any("kai.scheduler/min-member" in message for message in world.events())
    found = condition(world, "p")
    assert (found["status"], found["reason"]) == ("False", "Misconfigured")
    assert "write at most 2" in found["message"]
    mended = {"metadata": {"annotations": {"kai.scheduler/min-member": "2"}}}
    world.change(kinds.JOB, "j", mended)
    assert world.group()["spec"]["minMember"] == 2


def test_a_group_whose_workload_became_wrong_keeps_its_shape_and_says_why(world: World) -> None:
    world.add(kinds.JOB, job())
    wrong = {"metadata": {"annotations": {"kai.scheduler/min-member": "many"}}}
    world.change(kinds.JOB, "j", wrong)
    (found,) = world.group()["status"]["conditions"]
    assert (found["type"], found["status"]) == ("Derived", "False")
    assert "kai.scheduler/min-member" in found["message"]
    right = {"metadata": {"annotations": {"kai.scheduler/min-member": None}}}
    world.change(kinds.JOB, "j", right)
    (found,) = world.group()["status"]["conditions"]
    assert found["status"] == "True"


@pytest.mark.parametrize(
    ("name", "uid", "problem"),
    [("ghost", "u-2", "does not exist"), ("j", "u-3", "is not the one meant")],
)
def test_an_owner_that_is_gone_or_was_replaced_is_named(
    world: World, name: str, uid: str, problem: str
) -> None:
    world.add(kinds.JOB, job())
    gone = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "uid": uid}}
    meta = {"name": "p", "namespace": "default", "ownerReferences": [reference(gone)]}
    assert world.podgrouper.member_of({"metadata": meta}) is None
    with pytest.raises(GroupError, match=problem) as refused:
        world.podgrouper.members.must({"metadata": meta})
    assert refused.value.reason == "OwnerNotFound"


def test_owners_in_a_circle_are_refused(world: World) -> None:
    first = world.add(kinds.JOB, job("a"))
    second = job("b", ownerReferences=[reference(first)])
    made = world.add(kinds.JOB, second)
    back = {"metadata": {"ownerReferences": [reference(made)]}}
    world.change(kinds.JOB, "a", back)
    assert any("circle" in message for message in world.events())


def test_two_owners_without_a_controller_are_refused(world: World) -> None:
    one, two = world.add(kinds.JOB, job("a")), world.add(kinds.JOB, job("b"))
    both = [{**reference(o), "controller": False} for o in (one, two)]
    world.add(
        kinds.POD,
        {
            "metadata": {"name": "p", "ownerReferences": both},
            "spec": {"containers": [CONTAINER]},
        },
    )
    assert "controller" in condition(world, "p")["message"]


def test_a_burst_of_pods_gets_its_groups_side_by_side(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server answers one write after the other no faster than many at once."""
    sent: list[int] = []
    batch = world.store.batch

    def counted(writes: Sequence[Write]) -> list[Any]:
        sent.append(len(writes))
        return batch(writes)

    monkeypatch.setattr(world.store, "batch", counted)
    for i in range(50):
        world.store.create(kinds.POD, lone_pod(f"p{i}"))
    world.settle()
    assert len(world.groups()) == 50
    assert sent[0] == 50


def test_a_group_is_not_written_again_because_its_pod_was_bound(world: World) -> None:
    world.store.create(kinds.POD, lone_pod("p"))
    world.settle()
    (before,) = world.groups()
    note = {keys.POD_GROUP: before["metadata"]["name"]}
    world.change(kinds.POD, "p", {"metadata": {"annotations": note}})
    assert world.groups() == [before]


def lone_pod(name: str) -> Object:
    spec = {"schedulerName": "kai-scheduler", "containers": [CONTAINER]}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }

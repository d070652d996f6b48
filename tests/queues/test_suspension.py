"""Suspend and resume of any kind: by its own switch, or by annotation where it has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kai_ray.admission.pods import PodAdmission
from kai_ray.api import labels as L
from kai_ray.cli.root import root
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Resource
from kai_ray.cluster.rest import RestServer
from kai_ray.cluster.suspension import SUSPEND, is_suspended, suspend_patch
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

from .test_workload_types import job

_CONTAINER = {
    "name": "main",
    "image": "app",
    "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}},
}
_TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [_CONTAINER]}}


def serving(kind: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": _TEMPLATE,
    }
    if kind == "StatefulSet":
        spec["serviceName"] = "web"
        spec["podManagementPolicy"] = "Parallel"
    # The default queue guarantees nothing, so what runs in it must be preemptible.
    meta = {
        "name": "web",
        "namespace": "default",
        "annotations": annotations or {},
        "labels": {L.PRIORITY_CLASS: "train"},
    }
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}


WITHOUT_SWITCH: list[tuple[Resource, dict[str, Any]]] = [
    (kinds.DEPLOYMENT, serving("Deployment")),
    (kinds.DEPLOYMENT, serving("Deployment", {L.MIN_MEMBER: "3"})),
    (kinds.STATEFUL_SET, serving("StatefulSet")),
    (kinds.REPLICA_SET, serving("ReplicaSet")),
]


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(ClusterConfig.short("2x8"), VirtualClock()) as c:
        yield c


def placed(c: EmbeddedCluster) -> int:
    return sum(
        1
        for p in c.store.list(kinds.POD, "default").items
        if p["spec"].get("nodeName") and not p["metadata"].get("deletionTimestamp")
    )


def pods(c: EmbeddedCluster) -> list[dict[str, Any]]:
    return c.store.list(kinds.POD, "default").items


@pytest.mark.parametrize(("resource", "obj"), WITHOUT_SWITCH)
def test_pods_of_a_kind_without_a_switch_leave_and_wait_until_it_is_resumed(
    cluster: EmbeddedCluster, resource: Resource, obj: dict[str, Any]
) -> None:
    c = cluster
    c.store.create(resource, obj)
    assert c.run_until(lambda: placed(c) == 3, 60)
    c.store.patch(resource, "web", suspend_patch(resource, True), "default")
    assert is_suspended(resource, c.store.get(resource, "web", "default"))
    assert c.run_until(lambda: placed(c) == 0 and len(pods(c)) == 3, 120)
    c.run_for(60)
    assert placed(c) == 0
    assert {tuple(gates(p)) for p in pods(c)} == {(L.SUSPENDED_GATE,)}
    groups = c.store.list(kinds.POD_GROUP, "default").items
    said = [
        next(x for x in g["status"]["conditions"] if x["type"] == "Scheduled")
        for g in groups
        if g["metadata"]["annotations"].get(L.SUSPENDED) == "true" and g.get("status")
    ]
    assert said
    assert {x["reason"] for x in said if x["status"] == "False"} == {"Suspended"}
    c.store.patch(resource, "web", suspend_patch(resource, False), "default")
    assert c.run_until(lambda: placed(c) == 3, 60)
    assert not any(gates(p) for p in pods(c))


def gates(pod: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def test_a_workload_made_suspended_does_not_start(cluster: EmbeddedCluster) -> None:
    c = cluster
    c.store.create(kinds.DEPLOYMENT, serving("Deployment", {L.SUSPENDED: "true"}))
    c.run_for(60)
    assert len(pods(c)) == 3
    assert placed(c) == 0
    assert all(gates(p) == [L.SUSPENDED_GATE] for p in pods(c))


def test_a_gate_that_somebody_else_has_put_stays_shut(cluster: EmbeddedCluster) -> None:
    """Resuming opens our gate and no other; the pods start when both are open."""
    c = cluster
    obj = serving("Deployment", {L.SUSPENDED: "true"})
    template = {**_TEMPLATE, "spec": {**_TEMPLATE["spec"], "schedulingGates": [{"name": "a/b"}]}}
    obj["spec"]["template"] = template
    c.store.create(kinds.DEPLOYMENT, obj)
    c.run_for(20)
    assert all(gates(p) == ["a/b", L.SUSPENDED_GATE] for p in pods(c))
    c.store.patch(kinds.DEPLOYMENT, "web", suspend_patch(kinds.DEPLOYMENT, False), "default")
    assert c.run_until(lambda: all(gates(p) == ["a/b"] for p in pods(c)), 60)
    assert placed(c) == 0
    for p in pods(c):
        name = p["metadata"]["name"]
        c.store.patch(kinds.POD, name, {"spec": {"schedulingGates": None}}, "default")
    assert c.run_until(lambda: placed(c) == 3, 60)


def test_pods_that_came_in_without_a_gate_are_held_all_the_same(cluster: EmbeddedCluster) -> None:
    """As where the webhook was down: the pods' own admission is switched off."""
    c = cluster
    c.store.admission[:] = [a for a in c.store.admission if not isinstance(a, PodAdmission)]
    obj = serving("Deployment", {L.SUSPENDED: "true"})
    obj["spec"]["template"] = {
        **_TEMPLATE,
        "spec": {**_TEMPLATE["spec"], "schedulerName": L.SCHEDULER_NAME},
    }
    c.store.create(kinds.DEPLOYMENT, obj)
    c.run_for(60)
    assert len(pods(c)) == 3
    assert not any(gates(p) for p in pods(c))
    assert placed(c) == 0
    c.store.patch(kinds.DEPLOYMENT, "web", suspend_patch(kinds.DEPLOYMENT, False), "default")
    assert c.run_until(lambda: placed(c) == 3, 60)


def test_others_take_what_a_suspended_workload_leaves(cluster: EmbeddedCluster) -> None:
    c = cluster
    obj = serving("Deployment")
    obj["spec"]["replicas"] = 16
    c.store.create(kinds.DEPLOYMENT, obj)
    assert c.run_until(lambda: placed(c) == 16, 60)
    c.store.create(kinds.JOB, job("wants", gpus=8))
    c.run_for(10)
    assert not any(p["spec"].get("nodeName") for p in pods(c) if "wants" in p["metadata"]["name"])
    c.store.patch(kinds.DEPLOYMENT, "web", suspend_patch(kinds.DEPLOYMENT, True), "default")
    assert c.run_until(
        lambda: any(p["spec"].get("nodeName") for p in pods(c) if "wants" in p["metadata"]["name"]),
        60,
    )


@pytest.mark.parametrize("resource", list(SUSPEND), ids=lambda r: r.kind)
def test_a_kind_with_a_switch_is_told_by_it(resource: Resource) -> None:
    patch = suspend_patch(resource, True)
    assert "metadata" not in patch
    assert is_suspended(resource, {"metadata": {}, **patch})
    assert not is_suspended(resource, {"metadata": {}, **suspend_patch(resource, False)})


def test_a_bare_pod_that_runs_is_never_deleted_by_suspending(cluster: EmbeddedCluster) -> None:
    c = cluster
    meta = {"name": "bare", "namespace": "default"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [_CONTAINER]},
    }
    c.store.create(kinds.POD, pod)
    assert c.run_until(lambda: placed(c) == 1, 30)
    c.store.patch(kinds.POD, "bare", suspend_patch(kinds.POD, True), "default")
    c.run_for(30)
    assert placed(c) == 1


def test_from_the_command_line(tmp_path: Path) -> None:
    with EmbeddedCluster(ClusterConfig.short("1x8")) as c:
        c.store.create(kinds.DEPLOYMENT, serving("Deployment"))
        c.start()
        with RestServer(c.store) as server:
            config = server.write_kubeconfig(tmp_path / "config")

            def kai(*args: str) -> Result:
                env = {"KAI_KUBECONFIG": str(config), "NO_COLOR": "1"}
                return CliRunner().invoke(root, list(args), env=env)

            assert c.run_until(lambda: placed(c) == 3, 20)
            done = kai("job", "suspend", "deployment/web")
            assert "deployment/web suspended" in done.output, done.output
            assert c.run_until(lambda: placed(c) == 0 and len(pods(c)) == 3, 30)
            assert "already" in kai("job", "suspend", "deployment/web").output
            assert "Suspended" in kai("get", "jobs").output
            done = kai("job", "resume", "deployment/web")
            assert "deployment/web resumed" in done.output, done.output
            assert c.run_until(lambda: placed(c) == 3, 20)
            pod = pods(c)[0]["metadata"]["name"]
            assert "deployment" in kai("get", "jobs", "-o", "json").output.lower(), pod
            done = kai("queue", "drain", "default-queue", "--deadline", "-1s")
            assert done.exit_code == 2 and "such as 30m" in done.output
            done = kai("queue", "drain", "default-queue", "--deadline", "1s")
            assert "default-queue starts nothing new and is empty at" in done.output, done.output
            assert c.run_until(lambda: placed(c) == 0 and len(pods(c)) == 3, 30)
            assert "default-queue resumed" in kai("queue", "resume", "default-queue").output
            assert c.run_until(lambda: placed(c) == 3, 20)

"""What kubectl shows: get in its forms, describe, events, explain, discovery."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
import time
from typing import Any

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.memory import MemoryStore

from .conftest import Kubectl


def run(store: MemoryStore, namespace: str, name: str, node: str = "gpu-0") -> None:
    """What a kubelet reports of a pod that runs."""
    store.bind(namespace, name, node)
    pod = store.get(r.POD, name, namespace)
    started = rfc3339(time.time())
    store.patch(
        r.POD,
        name,
        {
            "status": {
                "phase": "Running",
                "podIP": "10.0.0.7",
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": started},
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": started},
                ],
                "containerStatuses": [
                    {
                        "name": c["name"],
                        "ready": True,
                        "restartCount": 0,
                        "image": c["image"],
                        "imageID": "",
                        "state": {"running": {"startedAt": started}},
                    }
                    for c in pod["spec"]["containers"]
                ],
            }
        },
        namespace,
        subresource="status",
    )


def add_node(store: MemoryStore, name: str) -> None:
    store.create(
        r.NODE,
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"node-role.kubernetes.io/worker": ""}},
            "status": {
                "capacity": {"nvidia.com/gpu": "8", "cpu": "64", "pods": "110"},
                "allocatable": {"nvidia.com/gpu": "8", "cpu": "64", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Simulated"},
                "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}],
            },
        },
    )


def add_event(store: MemoryStore, namespace: str, about: dict[str, str], reason: str) -> None:
    now = rfc3339(time.time())
    store.create(
        r.EVENT,
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "e-", "namespace": namespace},
            "involvedObject": about,
            "reason": reason,
            "message": f"{reason} happened",
            "type": "Warning",
            "source": {"component": "kai-scheduler"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 3,
        },
    )


def test_get_shows_a_pod_in_every_form(kubectl: Kubectl, pod) -> None:
    kubectl("create", "-f", "-", stdin=pod("p", "a", "b", app="x"))
    run(kubectl.store, kubectl.namespace, "p")

    head, row = kubectl("get", "pods").splitlines()
    assert head.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["p", "2/2", "Running", "0"]
    wide = kubectl("get", "pods", "-o", "wide").splitlines()[1].split()
    assert wide[5:7] == ["10.0.0.7", "gpu-0"]
    assert kubectl("get", "pods", "-o", "name") == "pod/p\n"
    assert kubectl.json("get", "pod", "p")["spec"]["nodeName"] == "gpu-0"
    assert "nodeName: gpu-0" in kubectl("get", "pod", "p", "-o", "yaml")
    assert kubectl("get", "pod", "p", "-o", "jsonpath={.spec.containers[*].name}") == "a b"
    columns = kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name,P:.status.phase")
    assert columns.splitlines()[1].split() == ["p", "Running"]
    assert kubectl("get", "pod/p", "--show-labels").splitlines()[1].split()[-1] == "app=x"


def test_selectors_choose(kubectl: Kubectl, pod) -> None:
    for name, tier in (("a", "web"), ("b", "web"), ("c", "db")):
        kubectl.store.create(r.POD, pod(name, tier=tier))
    run(kubectl.store, kubectl.namespace, "b")

    def names(*args: str) -> str:
        return kubectl("get", "pods", "-o", "name", *args)

    assert names("-l", "tier=web") == "pod/a\npod/b\n"
    assert names("-l", "tier notin (web)") == "pod/c\n"
    assert names("--field-selector", "status.phase=Running") == "pod/b\n"
    assert names("--field-selector", "spec.nodeName=,metadata.name!=c") == "pod/a\n"
    assert names("--sort-by", "{.metadata.labels.tier}") == "pod/c\npod/a\npod/b\n"
    assert names("--chunk-size", "1") == "pod/a\npod/b\npod/c\n"
    everywhere = kubectl("get", "pods", "-A", "--no-headers")
    assert [line.split()[1] for line in everywhere.splitlines() if kubectl.namespace in line] == [
        "a",
        "b",
        "c",
    ]


def test_watch_prints_changes_as_they_come(kubectl: Kubectl, pod) -> None:
    kubectl.store.create(r.POD, pod("first"))
    watching = kubectl.start("get", "pods", "-w", "--no-headers")
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[:3] == ["first", "0/1", "Pending"]
        kubectl.store.create(r.POD, pod("second"))
        assert watching.stdout.readline().split()[0] == "second"
        run(kubectl.store, kubectl.namespace, "first")
        lines = [watching.stdout.readline().split()[:3] for _ in range(2)]
        assert lines[-1] == ["first", "1/1", "Running"]
    finally:
        watching.terminate()
        watching.communicate(timeout=10)


def test_watch_as_json_gives_whole_objects(kubectl: Kubectl, pod) -> None:
    watching = kubectl.start("get", "pods", "--watch-only", "-o", "json", "--output-watch-events")
    seen = threading.Event()

    def create_until_seen() -> None:  # nothing tells when kubectl has begun to watch
        for number in itertools.count():
            kubectl.store.create(r.POD, pod(f"p-{number}"))
            if seen.wait(0.5):
                return

    creator = threading.Thread(target=create_until_seen)
    creator.start()
    try:
        event = first_json(watching)
        assert event["type"] == "ADDED"
        assert event["object"]["metadata"]["name"].startswith("p-")
    finally:
        seen.set()
        creator.join()
        watching.terminate()
        watching.communicate(timeout=10)


def first_json(process: subprocess.Popen[str]) -> Any:
    """The first JSON value that a process prints, over however many lines."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            continue
    raise AssertionError(f"no JSON in {text!r}")


def test_other_kinds_have_their_columns(kubectl: Kubectl) -> None:
    add_node(kubectl.store, "columns-node")
    node = kubectl("get", "node", "columns-node", "-o", "wide").splitlines()[1].split()
    assert node[:3] == ["columns-node", "Ready", "worker"]
    assert "10.1.0.1" in node
    kubectl("create", "job", "j", "--image", "x")
    job = kubectl("get", "jobs").splitlines()
    assert job[0].split() == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    assert job[1].split()[:3] == ["j", "Running", "0/1"]
    kubectl("create", "deployment", "d", "--image", "x", "--replicas", "3")
    assert kubectl("get", "deploy").splitlines()[1].split()[:4] == ["d", "0/3", "0", "0"]
    assert kubectl("get", "ns", kubectl.namespace).splitlines()[1].split()[1] == "Active"
    queues = kubectl("get", "queues").splitlines()
    assert queues[0].split()[:2] == ["NAME", "PARENT"]
    child = next(line for line in queues if line.startswith("default-queue"))
    assert child.split()[1] == "default-parent-queue"
    assert "deployment.apps/d" in kubectl("get", "all")


def test_describe_tells_the_story_of_a_pod(kubectl: Kubectl, pod) -> None:
    made = kubectl.store.create(r.POD, pod("p", app="x"))
    about = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": kubectl.namespace,
        "name": "p",
        "uid": made["metadata"]["uid"],
    }
    add_event(kubectl.store, kubectl.namespace, about, "Unschedulable")
    run(kubectl.store, kubectl.namespace, "p")
    text = kubectl("describe", "pod", "p")
    assert "Node:             gpu-0" in text
    assert "Unschedulable happened" in text
    events = kubectl("events", "--for", "pod/p").splitlines()
    assert "Unschedulable" in events[1]
    table = kubectl("get", "events").splitlines()
    assert table[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert table[1].split()[1:4] == ["Warning", "Unschedulable", "pod/p"]


def test_describe_sums_a_node_up(kubectl: Kubectl, pod) -> None:
    add_node(kubectl.store, "described")
    kubectl.store.create(r.POD, pod("p"))
    run(kubectl.store, kubectl.namespace, "p", "described")
    text = kubectl("describe", "node", "described")
    assert "nvidia.com/gpu" in text
    assert f"{kubectl.namespace}  " in text.split("Non-terminated Pods")[1]


@pytest.mark.parametrize("kind", ["queue", "podgroup"])
def test_describe_works_on_our_kinds(kubectl: Kubectl, kind: str) -> None:
    if kind == "queue":
        assert "default-parent-queue" in kubectl("describe", "queue", "default-queue")
        return
    kubectl.store.create(
        r.POD_GROUP,
        {
            "apiVersion": r.POD_GROUP.api_version,
            "kind": "PodGroup",
            "metadata": {"name": "pg", "namespace": kubectl.namespace},
            "spec": {"minMember": 4, "queue": "default-queue"},
        },
    )
    text = kubectl("describe", "podgroup", "pg")
    assert "Min Member:  4" in text
    assert kubectl("get", "pg").splitlines()[1].split()[0] == "pg"


def test_explain_knows_core_and_custom_fields(kubectl: Kubectl) -> None:
    pods = kubectl("explain", "pod.spec")
    assert "containers\t<[]Container> -required-" in pods
    assert "schedulerName\t<string>" in pods
    assert "nvidia" not in kubectl("explain", "pod.spec.containers.resources.limits")
    queue = kubectl("explain", "queue.spec.resources")
    assert "gpu\t<" in queue
    assert "quota" in kubectl("explain", "queues.spec.resources.gpu")
    assert "minMember" in kubectl("explain", "podgroup", "--recursive")
    assert "does not exist" in kubectl("explain", "pod.spec.nonsense", ok=False)
    older = ("explain", "queue.spec.resources.gpu", "--output", "plaintext-openapiv2")
    assert "quota\t<number>" in kubectl(*older), "the form that kubectl before 1.29 reads"


def test_discovery_lists_what_is_served(kubectl: Kubectl) -> None:
    names = kubectl("api-resources", "-o", "name").split()
    assert {"pods", "deployments.apps", "queues.scheduling.run.ai", "rayjobs.ray.io"} <= set(names)
    wide = kubectl("api-resources", "--api-group", "apps", "-o", "wide")
    deployments = next(line for line in wide.splitlines() if line.startswith("deployments"))
    assert deployments.split()[1:5] == ["deploy", "apps/v1", "true", "Deployment"]
    versions = kubectl("api-versions").split()
    assert {"v1", "batch/v1", "scheduling.run.ai/v2"} <= set(versions)
    assert "kai-ray" in kubectl("version")
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert "is running at" in kubectl("cluster-info")


def test_what_is_missing_is_named(kubectl: Kubectl) -> None:
    said = kubectl("get", "pod", "nobody", ok=False)
    assert said.strip() == 'Error from server (NotFound): pods "nobody" not found'
    assert kubectl("get", "pod", "nobody", "--ignore-not-found") == ""
    assert "doesn't have a resource type" in kubectl("get", "unicorns", ok=False)


def test_logs_of_a_simulated_container(kubectl: Kubectl, pod) -> None:
    kubectl.store.create(r.POD, pod("p", "one"))
    assert "does not have a host assigned" in kubectl("logs", "p", ok=False)
    run(kubectl.store, kubectl.namespace, "p")
    assert "simulated container one on node gpu-0" in kubectl("logs", "p")

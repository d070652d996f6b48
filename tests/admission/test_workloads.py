"""What a user hears about a workload that is taken, and will wait."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from kai_ray.admission.workloads import WorkloadAdmission
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import AdmissionRequest, Object, Resource, Unavailable
from tests.control import objects


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    made = MemoryStore()
    install_defaults(made)
    paused = objects.queue("paused")
    paused["metadata"]["annotations"] = {"kai.scheduler/paused": "true"}
    made.create(kinds.QUEUE, paused)
    return made


def _node(name: str, gpus: int, product: str, **labels: str) -> Object:
    labels = {"nvidia.com/gpu.product": product, **labels}
    return objects.node(name, gpus, labels=labels)


NODES = [_node("a", 8, "H100", zone="1"), _node("b", 4, "A100", zone="2", slots="4")]


def _job(*, queue: str = "", gpus: Any = 1, **spec: Any) -> Object:
    container = {"name": "main", "image": "app", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {
        "metadata": {
            "name": "job",
            "namespace": "default",
            "labels": {"kai.scheduler/queue": queue} if queue else {},
        },
        "spec": {"template": {"spec": {"containers": [container], **spec}}},
    }


def _said(
    store: MemoryStore, obj: Object, kind: Resource = kinds.JOB, nodes: Sequence[Object] = NODES
) -> list[str]:
    said: list[str] = []
    request = AdmissionRequest("CREATE", kind, "", copy.deepcopy(obj), None, "", False, said.append)
    plugin = WorkloadAdmission(nodes=lambda port: nodes)
    assert plugin.admit(request, store) == obj
    assert all(len(word) <= 256 for word in said), said
    return said


def test_a_job_that_will_start_hears_nothing(store: MemoryStore) -> None:
    assert not _said(store, _job())
    assert not _said(store, _job(queue="default-queue", gpus=8))


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ("nowhere", "queue 'nowhere' does not exist, so the job waits: create it"),
        ("default-quee", "did you mean 'default-queue'?"),
        ("paused", "queue 'paused' is paused"),
    ],
)
def test_queues_in_which_it_would_wait(store: MemoryStore, queue: str, words: str) -> None:
    (said,) = _said(store, _job(queue=queue))
    assert words in said and "kai.scheduler/queue" in said


def _affinity(key: str, operator: str, *values: str) -> Object:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"gpus": 9},
            "asks for 9 nvidia.com/gpu, but of 2 nodes that it may use the largest has 8",
        ),
        (
            {"gpus": 8, "nodeSelector": {"zone": "2"}},
            "of 1 nodes that it may use the largest has 4",
        ),
        ({"nodeSelector": {"nvidia.com/gpu.product": "H200"}}, "there is A100, H100"),
        ({"nodeSelector": {"zone": "3"}}, "no node matches"),
        ({"gpus": 8, "affinity": _affinity("zone", "NotIn", "1")}, "largest has 4"),
        ({"affinity": _affinity("slots", "Gt", "4")}, "no node matches"),
        ({"gpus": 8, "affinity": _affinity("slots", "Lt", "5")}, "largest has 4"),
        ({"affinity": _affinity("slots", "Lt", "3", "4")}, "no node matches"),
    ],
)
def test_pods_that_no_node_could_take(store: MemoryStore, spec: Object, words: str) -> None:
    said = _said(store, _job(**spec))
    assert any(words in warning for warning in said), said


@pytest.mark.parametrize(
    "spec",
    [
        {"gpus": 4, "affinity": _affinity("slots", "Exists")},
        {"affinity": _affinity("slots", "Gt", "3")},
        {"gpus": "lots"},  # refused elsewhere, by its field
        {"affinity": {"nodeAffinity": "none"}},
        {"affinity": _affinity("slots", "Gt", "many")},
    ],
)
def test_what_could_start_or_cannot_be_read_is_no_warning(store: MemoryStore, spec: Object) -> None:
    assert not _said(store, _job(**spec))


def test_without_nodes_nothing_is_said_of_them(store: MemoryStore) -> None:
    assert not _said(store, _job(gpus=99), nodes=[])


def test_children_of_a_workload_are_left_to_it(store: MemoryStore) -> None:
    job = _job(queue="nowhere")
    job["metadata"]["ownerReferences"] = [{"kind": "CronJob", "name": "daily", "uid": "1"}]
    assert not _said(store, job)


def test_a_workload_that_cannot_be_grouped_hears_its_field_and_mend(store: MemoryStore) -> None:
    job = _job()
    job["metadata"]["annotations"] = {"kai.scheduler/batch-min-member": "many"}
    (said,) = _said(store, job)
    assert "kai.scheduler/batch-min-member" in said


def test_a_ray_job_is_read_as_the_operator_would(store: MemoryStore) -> None:
    pod = _job(gpus=16)["spec"]["template"]
    cluster = {
        "headGroupSpec": {"template": {"spec": {"containers": [{"name": "head", "image": "r"}]}}},
        "workerGroupSpecs": [{"groupName": "big", "replicas": 2, "template": pod}],
    }
    meta = {"name": "ray", "namespace": "default", "labels": {"kai.scheduler/queue": "nowhere"}}
    spec = {"entrypoint": "python x.py", "rayClusterSpec": cluster}
    said = _said(store, {"metadata": meta, "spec": spec}, kinds.RAY_JOB)
    assert any("'nowhere' does not exist" in warning for warning in said)
    assert any("asks for 16 nvidia.com/gpu" in warning for warning in said)
    assert any("KubeRay cannot suspend it" in warning for warning in said)
    spec["shutdownAfterJobFinishes"] = True
    said = _said(store, {"metadata": meta, "spec": spec}, kinds.RAY_JOB)
    assert not any("KubeRay" in warning for warning in said)


def test_while_nothing_can_be_read_nothing_is_said(store: MemoryStore) -> None:
    class Down:
        def get(self, *args: Any, **options: Any) -> Object:
            raise Unavailable("no answer")

        list = get

    said: list[str] = []
    job = _job(queue="nowhere")
    request = AdmissionRequest("CREATE", kinds.JOB, "", job, None, "", False, said.append)
    WorkloadAdmission().admit(request, Down())  # type: ignore[arg-type]
    assert not said

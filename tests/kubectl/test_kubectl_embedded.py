"""The real kubectl and the official client on a whole embedded cluster: jobs queue, run and end."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, watch

from kai_ray.cluster.rest import RestServer
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

from .conftest import Kubectl

RUN_FOR = "kai.scheduler/sim-run-time"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

RAY_JOB = """
apiVersion: ray.io/v1
kind: RayJob
metadata:
  name: tune
  labels: {kai.scheduler/queue: default-queue}
spec:
  entrypoint: python tune.py
  shutdownAfterJobFinishes: true
  rayClusterSpec:
    headGroupSpec:
      rayStartParams: {}
      template:
        spec:
          containers: [{name: head, image: ray, resources: {requests: {cpu: "1"}}}]
    workerGroupSpecs:
    - groupName: gpu
      replicas: 2
      minReplicas: 2
      maxReplicas: 2
      rayStartParams: {}
      template:
        spec:
          containers:
          - {name: worker, image: ray, resources: {limits: {nvidia.com/gpu: "4"}}}
  submitterPodTemplate:
    metadata: {annotations: {kai.scheduler/sim-run-time: 2s}}
    spec:
      restartPolicy: Never
      containers: [{name: submit, image: ray}]
"""


def job(name: str, gpus: int, pods: int = 1, seconds: float = 1) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": {"kai.scheduler/batch-min-member": str(pods)}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {
                "metadata": {"annotations": {RUN_FOR: f"{seconds}s"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.example/train:1",
                            "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
                        }
                    ],
                },
            },
        },
    }


@pytest.fixture(scope="module")
def face() -> Iterator[RestServer]:
    with EmbeddedCluster(ClusterConfig.short("2x8")) as cluster:
        cluster.start()
        with RestServer(cluster.store) as server:
            yield server


@pytest.fixture
def kubectl(kubectl_program: Path, face: RestServer, tmp_path: Path) -> Kubectl:
    path = face.write_kubeconfig(tmp_path / "config")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(path)}
    return Kubectl(kubectl_program, env, "default", face.store)


def test_a_ray_job_is_applied_grouped_run_and_ended(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=textwrap.dedent(RAY_JOB))
    path = "jsonpath={.status.jobStatus}"
    kubectl("wait", "rayjob/tune", f"--for={path}=SUCCEEDED", "--timeout=60s")
    groups = kubectl.json("get", "podgroups")["items"]
    assert [g["spec"]["minMember"] for g in groups if g["metadata"]["name"].startswith("pg-tune")]
    assert "tune" in kubectl("describe", "rayjob", "tune")
    kubectl("delete", "rayjob", "tune", "--timeout=30s")
    kubectl("wait", "pod", "-l", "ray.io/is-ray-node=yes", "--for=delete", "--timeout=60s")


def test_a_gang_that_does_not_fit_says_why_until_it_does(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=job("holds", gpus=8, pods=2, seconds=600))
    kubectl("wait", "pod", "-l", "job-name=holds", "--for=condition=Ready", "--timeout=30s")
    kubectl("create", "-f", "-", stdin=job("waits", gpus=8))
    kubectl(
        "wait", "pod", "-l", "job-name=waits", "--for=condition=PodScheduled=False", "--timeout=30s"
    )
    assert "Pending" in kubectl("get", "pods", "-l", "job-name=waits")
    (pod,) = kubectl.json("get", "pods", "-l", "job-name=waits")["items"]
    condition = next(c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
    assert "Gpu" in condition["reason"] + condition["message"], condition
    (group,) = (
        g
        for g in kubectl.json("get", "podgroups")["items"]
        if g["metadata"]["name"].startswith("pg-waits")
    )
    assert "nvidia.com/gpu" in kubectl("describe", "podgroup", group["metadata"]["name"])
    kubectl("delete", "job", "holds", "--timeout=30s")
    kubectl("wait", "job/waits", "--for=condition=complete", "--timeout=60s")
    kubectl("delete", "job", "waits")


def test_services_roll_out_scale_and_drain(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image", "x", "--replicas", "2")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("scale", "deployment/web", "--replicas", "3")
    kubectl("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=3", "--timeout=30s")
    node = kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.nodeName}")
    kubectl("drain", node, "--ignore-daemonsets", "--force", "--timeout=60s")
    kubectl("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=3", "--timeout=60s")
    nodes = kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}")
    assert node not in nodes.split()
    kubectl("uncordon", node)
    assert "simulated container" in kubectl("logs", "deployment/web")
    kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=30s")
    assert kubectl("get", "pods", "-l", "app=web", "-o", "name") == ""


def test_the_official_client_follows_a_job_to_its_end(face: RestServer, tmp_path: Path) -> None:
    path = face.write_kubeconfig(tmp_path / "config")
    api = config.new_client_from_config(config_file=str(path))
    batch: Any = client.BatchV1Api(api)
    body = job("followed", gpus=1, pods=3)
    batch.create_namespaced_job("default", body)
    events: Any = watch.Watch().stream(
        batch.list_namespaced_job,
        "default",
        field_selector="metadata.name=followed",
        timeout_seconds=60,
    )
    for event in events:
        conditions = event["object"].status.conditions or []
        if any(c.type == "Complete" and c.status == "True" for c in conditions):
            break
    else:
        pytest.fail("the job did not complete in time")
    core: Any = client.CoreV1Api(api)
    pods = core.list_namespaced_pod("default", label_selector="job-name=followed").items
    assert {p.status.phase for p in pods} == {"Succeeded"}
    assert len(pods) == 3
    batch.delete_namespaced_job("followed", "default", propagation_policy="Background")

"""Elastic workloads of the real operators: grown into what is left, shrunk before any eviction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object, Resource
from tests.real.operators import workloads as w
from tests.real.operators.fleet import Fleet
from tests.real.operators.kinds import TEMPLATE
from tests.real.operators.workloads import Style

pytestmark = pytest.mark.real

PLACE, GPUS = "elastic", 4
KINDS: dict[str, Resource] = {
    "torch": R.PYTORCH_JOB,
    "ray": R.RAY_CLUSTER,
    "job": R.JOB,
}


def style(kind: str) -> Style:
    """Each kind has a node to itself, of four GPUs."""
    key = f"{PLACE}-{kind}"
    toleration = {"key": PLACE, "operator": "Exists", "effect": "NoSchedule"}
    return Style(ours=True, place={"nodeSelector": {key: "true"}, "tolerations": [toleration]})


@pytest.fixture(scope="module")
def places(fleet: Fleet) -> Iterator[None]:
    names: list[str] = []
    for kind in KINDS:
        key = f"{PLACE}-{kind}"
        names += fleet.plane.gpu_nodes(1, GPUS, prefix=key, labels={key: "true"})
        taint = {"spec": {"taints": [{"key": PLACE, "value": "true", "effect": "NoSchedule"}]}}
        fleet.plane.port.patch(R.NODE, names[-1], taint)
    yield
    fleet.plane.remove_nodes(names)


def elastic(kind: str) -> Object:
    """One worker that may become three."""
    if kind == "ray":
        spec = w.ray_spec(style(kind), 1)
        spec["workerGroupSpecs"][0]["maxReplicas"] = 3
        made = w.ray_cluster("elastic-ray", spec)
        made["metadata"]["annotations"] = {L.ELASTIC: "true"}
        return made
    if kind == "torch":
        role = {
            "replicas": 1,
            "restartPolicy": "OnFailure",
            "template": w.pods("pytorch", style(kind)),
        }
        policy = {"rdzvBackend": "c10d", "minReplicas": 1, "maxReplicas": 3}
        spec = {"elasticPolicy": policy, "pytorchReplicaSpecs": {"Worker": role}}
        return w.workload("kubeflow.org/v1", "PyTorchJob", "elastic-torch", spec)
    template = w.pods("main", style(kind), restartPolicy="Never")
    made = w.workload("batch/v1", "Job", "elastic-job", {"parallelism": 1, "template": template})
    made["metadata"]["annotations"] = {L.MAX_PARALLELISM: "3"}
    return made


def on(fleet: Fleet, kind: str, prefix: str) -> int:
    """Pods with GPUs that run on the node of a kind."""
    found: list[dict[str, Any]] = fleet.plane.port.list(R.POD, TEMPLATE).items
    return sum(
        (p["spec"].get("nodeName") or "").startswith(f"{PLACE}-{kind}")
        and p["metadata"]["name"].startswith(prefix)
        and not p["metadata"].get("deletionTimestamp")
        and "nvidia.com/gpu" in p["spec"]["containers"][0]["resources"]["limits"]
        for p in found
    )


def reasons(fleet: Fleet) -> set[tuple[str, str]]:
    """(reason, kind) of the events of the elastic workloads."""
    return {
        (e["reason"], e["involvedObject"]["kind"])
        for e in fleet.plane.port.list(R.EVENT, TEMPLATE).items
        if e["involvedObject"]["name"].startswith("elastic-")
    }


def test_grown_into_what_is_left_and_shrunk_for_who_waits(fleet: Fleet, places: None) -> None:
    workloads = {kind: elastic(kind) for kind in KINDS}
    others = {k: w.job(f"other-{k}", Style(True, 1, style(k).place), 2) for k in KINDS}
    for other in others.values():
        other["spec"]["template"]["metadata"]["annotations"].clear()  # runs until it is deleted
    fleet.submit(TEMPLATE, *workloads.values())
    for kind in KINDS:
        assert fleet.until(lambda k=kind: on(fleet, k, "elastic") == 3, 90), kind
    fleet.submit(TEMPLATE, *others.values())
    for kind in KINDS:
        assert fleet.until(lambda k=kind: on(fleet, k, "other") == 2, 60), kind
        assert fleet.until(lambda k=kind: on(fleet, k, "elastic") == 2, 30), kind
    told = {(reason, r.kind) for reason in ("Grown", "Shrunk") for r in KINDS.values()}
    assert fleet.until(lambda: told <= reasons(fleet), 20), reasons(fleet)
    assert not {reason for reason, _ in reasons(fleet)} & {"Reclaimed", "Preempted"}
    for made in (*workloads.values(), *others.values()):
        kind = R.BY_KIND[made["apiVersion"], made["kind"]]
        fleet.plane.port.delete(kind, made["metadata"]["name"], TEMPLATE)

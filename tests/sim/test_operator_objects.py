"""Beside pods: the services, Jobs, clusters and statuses that the real operators made."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object, Resource
from kai_ray.sim.embedded import EmbeddedCluster
from tests.shared import shared_dir
from tests.sim.likeness import normal
from tests.sim.test_operator_pods import CASES, Case, cluster_for

#: Different in every run: when, where, and under which generated name.
_MOMENTS = (
    "lastTransitionTime",
    "lastUpdateTime",
    "startTime",
    "endTime",
    "completionTime",
    "ready",
)
_PLACES = (
    "podIP",
    "podName",
    "serviceIP",
    "rayClusterName",
    "jobId",
    "dashboardURL",
    "serviceName",
)


def case(manifest: str, **changes: Any) -> Case:
    found = next(c for c in CASES if c.manifest == manifest)
    return Case(
        found.manifest, found.saved, flag=found.flag, binds=changes.get("binds", found.binds)
    )


def saved(name: str) -> Object:
    found = yaml.safe_load(shared_dir("operator-pods", f"{name}.yaml").read_text())
    return found["items"][0] if found["kind"] == "List" else found


def only(cluster: EmbeddedCluster, resource: Resource, name: str = "") -> Object:
    found = [
        o
        for o in cluster.client.list(resource, "team-a").items
        if name in ("", o["metadata"]["name"])
    ]
    assert len(found) == 1, [o["metadata"]["name"] for o in found]
    return found[0]


def timeless(value: Any) -> Any:
    """A status with moments and generated names blanked, and conditions in order of type."""
    if isinstance(value, dict):
        out = {}
        for key, inner in value.items():
            blank = (key in _MOMENTS and isinstance(inner, str)) or key in _PLACES
            out[key] = "GENERATED" if blank else timeless(inner)
        return out
    if isinstance(value, list):
        items = [timeless(i) for i in value]
        if all(isinstance(i, dict) and "type" in i for i in items):
            # An absent message is an empty one.
            return sorted(({"message": "", **i} for i in items), key=lambda i: i["type"])
        return items
    return value


def test_the_head_service() -> None:
    with cluster_for(case("raycluster.yaml")) as cluster:
        assert normal(only(cluster, R.SERVICE)) == normal(saved("kuberay-1.6.2-head-svc"))


@pytest.mark.parametrize(
    ("binds", "name"),
    [(False, "kuberay-1.6.2-raycluster-before-bind"), (True, "kuberay-1.6.2-raycluster-ready")],
)
def test_the_status_of_a_ray_cluster(binds: bool, name: str) -> None:
    with cluster_for(case("raycluster.yaml", binds=binds)) as cluster:
        ours = only(cluster, R.RAY_CLUSTER)["status"]
    assert timeless(ours) == timeless(saved(name)["status"])


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        ("rayjob-http.yaml", "kuberay-1.6.2-rayjob-http-raycluster"),
        ("rayservice.yaml", "kuberay-1.6.2-rayservice-raycluster"),
    ],
)
def test_the_cluster_that_a_job_or_a_service_makes(manifest: str, name: str) -> None:
    with cluster_for(case(manifest)) as cluster:
        ours = only(cluster, R.RAY_CLUSTER)
    real = saved(name)
    mine = normal(ours, {ours["metadata"]["name"]: "CLUSTER"})
    theirs = normal(real, {real["metadata"]["name"]: "CLUSTER"})
    assert mine["metadata"] == theirs["metadata"]
    assert _without_empty(mine["spec"]) == _without_empty(theirs["spec"])
    assert timeless(ours["status"]) == timeless(real["status"])


def _without_empty(value: Any) -> Any:
    """Without empty maps (Go writes some) and without the CRD's default of one host."""
    if isinstance(value, dict):
        out = {k: _without_empty(v) for k, v in value.items()}
        return {k: v for k, v in out.items() if v != {} and (k, v) != ("numOfHosts", 1)}
    return [_without_empty(v) for v in value] if isinstance(value, list) else value


def test_the_submitter_job() -> None:
    with cluster_for(case("rayjob-k8s.yaml")) as cluster:
        ours = only(cluster, R.JOB)
        status = only(cluster, R.RAY_JOB)["status"]
    real = saved("kuberay-1.6.2-rayjob-k8sjob-job")
    names = {status["rayClusterName"]: "CLUSTER", status["jobId"]: "SUBMISSION"}
    assert normal(ours, names) == normal(real, {"rj-ks67t": "CLUSTER", "rj-lghz4": "SUBMISSION"})


def test_the_jobset_of_a_trainjob() -> None:
    with cluster_for(case("trainjob.yaml")) as cluster:
        ours = normal(only(cluster, R.JOB_SET))
    real = normal(saved("trainer-2.3.0-tj-jobset"))
    for obj in (ours, real):
        for group in obj["spec"]["replicatedJobs"]:
            for container in group["template"]["spec"]["template"]["spec"]["containers"]:
                for variable in container["env"]:
                    (variable.get("valueFrom") or {}).get("fieldRef", {}).pop("apiVersion", None)
    assert ours == real


@pytest.mark.parametrize(
    ("manifest", "resource", "name"),
    [
        ("pytorchjob.yaml", R.PYTORCH_JOB, "training-1.9.3-pytorchjob"),
        ("mpijob.yaml", R.MPI_JOB, "training-1.9.3-mpijob"),
    ],
)
def test_the_first_status_of_a_training_job(manifest: str, resource: Resource, name: str) -> None:
    with cluster_for(case(manifest)) as cluster:
        ours = only(cluster, resource)["status"]
    assert timeless(ours) == timeless(saved(name)["status"])


def test_the_last_status_of_a_trainjob() -> None:
    with cluster_for(case("trainjob.yaml", binds=True)) as cluster:
        cluster.run_for(300)
        ours = only(cluster, R.TRAIN_JOB)["status"]
    assert timeless(ours) == timeless(saved("trainer-2.3.0-tj-complete")["status"])


def test_the_last_status_of_a_rayjob() -> None:
    with cluster_for(case("rayjob-http.yaml", binds=True)) as cluster:
        cluster.run_for(300)
        ours = only(cluster, R.RAY_JOB)["status"]
    assert timeless(ours) == timeless(saved("kuberay-1.6.2-rayjob-http-succeeded")["status"])

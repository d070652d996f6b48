"""The stand-ins make the pods that the real operators made of the same manifests, by field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import yaml

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.shared import shared_dir
from tests.sim.first_fit import FirstFit
from tests.sim.likeness import normal

GROUP = "ray.io/group"
INDEX = "training.kubeflow.org/replica-index"
TYPE = "training.kubeflow.org/replica-type"


def _with(**labels: str) -> Callable[[Object], bool]:
    wanted = {k.replace("__", "/").replace("_", "-"): v for k, v in labels.items()}
    return lambda pod: all(
        (pod["metadata"].get("labels") or {}).get(k) == v for k, v in wanted.items()
    )


def ray(group: str, index: str | None = None, host: str | None = None) -> Callable[[Object], bool]:
    def pick(pod: Object) -> bool:
        labels = pod["metadata"].get("labels") or {}
        return (
            labels.get(GROUP) == group
            and index in (None, labels.get("ray.io/worker-group-replica-index"))
            and host in (None, labels.get("ray.io/replica-host-index"))
        )

    return pick


def training(kind: str, index: str | None = None) -> Callable[[Object], bool]:
    def pick(pod: Object) -> bool:
        labels = pod["metadata"].get("labels") or {}
        return labels.get(TYPE) == kind and index in (None, labels.get(INDEX))

    return pick


def named(prefix: str) -> Callable[[Object], bool]:
    return lambda pod: pod["metadata"].get("generateName") == prefix


@dataclass(frozen=True)
class Case:
    manifest: str
    saved: dict[str, Callable[[Object], bool]]
    #: The run that was saved had the Ray operator's flag --batch-scheduler=kai-scheduler.
    flag: bool = False
    binds: bool = False
    names: tuple[str, ...] = field(default=())


CASES = [
    Case(
        "raycluster.yaml",
        {
            "kuberay-1.6.2-rc-head-pod": ray("headgroup"),
            "kuberay-1.6.2-rc-gpu-workers-worker-pod": ray("gpu-workers", "0"),
            "kuberay-1.6.2-rc-cpu-workers-worker-pod": ray("cpu-workers", "0"),
        },
        flag=True,
    ),
    Case(
        "raycluster-multihost-autoscaler.yaml",
        {
            "kuberay-1.6.2-mh-head-pod": ray("headgroup"),
            "kuberay-1.6.2-mh-slice-worker-pod": ray("slice", "0", "0"),
        },
    ),
    Case(
        "rayjob-http.yaml",
        {
            "kuberay-1.6.2-rayjob-http-head-pod": ray("headgroup"),
            "kuberay-1.6.2-rayjob-http-worker-pod": ray("w", "0"),
        },
        flag=True,
    ),
    Case(
        "rayjob-k8s.yaml",
        {
            "kuberay-1.6.2-rayjob-k8sjob-head-pod": ray("headgroup"),
            "kuberay-1.6.2-rayjob-k8sjob-w-worker-pod": ray("w", "0"),
            "kuberay-1.6.2-rayjob-k8sjob-submitter-pod": named("rj-"),
        },
        binds=True,
    ),
    Case(
        "rayservice.yaml",
        {
            "kuberay-1.6.2-rayservice-head-pod": ray("headgroup"),
            "kuberay-1.6.2-rayservice-worker-pod": ray("w", "0"),
        },
        flag=True,
    ),
    Case(
        "pytorchjob.yaml",
        {
            "training-1.9.3-pt-master-0-pod": training("master"),
            "training-1.9.3-pt-worker-0-pod": training("worker", "0"),
            "training-1.9.3-pt-worker-1-pod": training("worker", "1"),
        },
    ),
    Case(
        "mpijob.yaml",
        {
            "training-1.9.3-mpi-launcher-pod": training("launcher"),
            "training-1.9.3-mpi-worker-0-pod": training("worker", "0"),
            "training-1.9.3-mpi-worker-1-pod": training("worker", "1"),
        },
    ),
    Case(
        "jobset.yaml",
        {
            "jobset-0.12.0-js-leader-0-0-pod": named("js-leader-0-0-"),
            "jobset-0.12.0-js-workers-0-0-pod": named("js-workers-0-0-"),
        },
    ),
    Case("trainjob.yaml", {"trainer-2.3.0-tj-node-pod": named("tj-node-0-0-")}),
]
PODS = [(case, name) for case in CASES for name in case.saved]


def submit(cluster: EmbeddedCluster, path) -> list[Object]:
    """Creates every document of a file, with its namespace."""
    made: list[Object] = []
    for doc in yaml.safe_load_all(path.read_text()):
        if doc:
            resource = R.BY_KIND[doc["apiVersion"], doc["kind"]]
            made.append(cluster.client.create(resource, doc))
    return made


def cluster_for(case: Case) -> EmbeddedCluster:
    flag = "kai-scheduler" if case.flag else ""
    short = ClusterConfig.short("4x8")
    config = ClusterConfig(node_pools=short.node_pools, ray_batch_scheduler=flag)
    extra = [FirstFit()] if case.binds else []
    cluster = EmbeddedCluster(config, VirtualClock(), scheduling=False, extra=extra)
    cluster.client.create(R.NAMESPACE, {"metadata": {"name": "team-a"}})
    submit(cluster, shared_dir("realparts", "yaml", case.manifest))
    cluster.run_for(1)
    assert cluster.runtime.errors == 0
    return cluster


def generated(pod: Object) -> dict[str, str]:
    """Names that an operator generated and that appear all over its pods."""
    found: dict[str, str] = {}
    name = (pod["metadata"].get("labels") or {}).get(L.RAY_CLUSTER)
    for container in pod["spec"]["containers"]:
        for variable in container.get("env") or ():
            if variable["name"] == "RAY_JOB_SUBMISSION_ID":
                found[variable["value"]] = "SUBMISSION"
            if variable["name"] == "RAY_DASHBOARD_ADDRESS" and variable.get("value"):
                name = variable["value"].split("-head-svc")[0]
    if name and name.count("-"):
        found[name] = "CLUSTER"
    slice_name = (pod["metadata"].get("labels") or {}).get("ray.io/worker-group-replica-name")
    if slice_name:
        found[slice_name] = "REPLICA"
    return found


@pytest.mark.parametrize(("case", "saved"), PODS, ids=[name for _, name in PODS])
def test_a_stand_in_makes_the_pod_that_the_operator_made(case: Case, saved: str) -> None:
    real = yaml.safe_load(shared_dir("operator-pods", f"{saved}.yaml").read_text())
    with cluster_for(case) as cluster:
        pods = [p for p in cluster.client.list(R.POD, "team-a").items if case.saved[saved](p)]
        assert len(pods) == 1, [p["metadata"]["name"] for p in pods]
        ours = normal(pods[0], generated(pods[0]))
    assert ours == normal(real, generated(real))

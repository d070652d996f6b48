"""Real workloads whose gang cannot be completed: they go as a whole, come back, and run."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Forbidden, Object, Resource
from kai_ray.cluster.suspension import SUSPEND, is_suspended
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

_POD = {
    "restartPolicy": "Never",
    "containers": [
        {
            "name": "main",
            "image": "app",
            "resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}},
        }
    ],
}


def _template(**more: Any) -> Object:
    return {"spec": {**_POD, **more}}


def _ray_spec() -> Object:
    container = {**_POD["containers"][0], "name": "ray"}
    template = {"spec": {"containers": [container]}}
    group = {"groupName": "w", "replicas": 3, "minReplicas": 3, "maxReplicas": 3}
    head = {"rayStartParams": {}, "template": template}
    return {
        "headGroupSpec": head,
        "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": template}],
    }


def _torch() -> Object:
    container = {**_POD["containers"][0], "name": "pytorch"}
    replica = {"restartPolicy": "OnFailure", "template": {"spec": {"containers": [container]}}}
    roles = {"Master": {"replicas": 1, **replica}, "Worker": {"replicas": 3, **replica}}
    return {"pytorchReplicaSpecs": roles}


_WORKLOADS: list[tuple[Resource, Object]] = [
    (kinds.RAY_CLUSTER, _ray_spec()),
    (kinds.RAY_JOB, {"entrypoint": "python a.py", "rayClusterSpec": _ray_spec()}),
    (
        kinds.RAY_JOB,
        {
            "entrypoint": "python a.py",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": _ray_spec(),
        },
    ),
    (kinds.JOB, {"parallelism": 4, "completions": 4, "template": _template()}),
    (kinds.PYTORCH_JOB, _torch()),
]


@pytest.mark.parametrize(
    ("resource", "spec"),
    _WORKLOADS,
    ids=["RayCluster", "RayJob", "RayJob that shuts down", "Job", "PyTorchJob"],
)
def test_a_gang_that_cannot_be_completed_comes_back_whole(resource: Resource, spec: Object) -> None:
    with EmbeddedCluster(ClusterConfig.short("1x8"), VirtualClock()) as cluster:
        bind, start = cluster.store.bind, cluster.clock.now()
        first: set[str] = set()
        refused: set[str] = set()

        def refusing(namespace: str, pod: str, node: str, **more: Any) -> None:
            """The fourth pod that is ever bound, and whatever takes its place, for 100 s."""
            if cluster.clock.now() < start + 100 and pod not in first and len(first) >= 3:
                refused.add(pod)
                raise Forbidden("not before its time")
            bind(namespace, pod, node, **more)
            first.add(pod)

        cluster.store.bind = refusing  # type: ignore[method-assign]
        meta: Object = {"name": "work", "namespace": "default"}
        if resource == kinds.JOB:
            meta["annotations"] = {"kai.scheduler/batch-min-member": "4"}
        cluster.store.create(resource, {"metadata": meta, "spec": spec})
        cluster.run_for(95)
        assert refused
        evicted = [e for e in cluster.store.list(kinds.EVENT).items if e["reason"] == "StaleGang"]
        assert evicted, "it went as a whole"
        cluster.run_for(300)
        workload = cluster.store.get(resource, "work", "default")
        if resource in SUSPEND:
            assert not is_suspended(resource, workload)
        assert _went_well(cluster, resource, workload)


def _went_well(cluster: EmbeddedCluster, resource: Resource, workload: Object) -> bool:
    """A RayJob says so itself (its cluster may be gone by then); of others all pods have a node."""
    if resource == kinds.RAY_JOB:
        return workload["status"]["jobStatus"] == "SUCCEEDED"
    pods = [
        p
        for p in cluster.store.list(kinds.POD, "default").items
        if p["status"].get("phase") != "Failed"
    ]
    return len(pods) >= 4 and all(p["spec"].get("nodeName") for p in pods)

"""The process on the far side of HTTP: the same controllers as inside, another port."""

from __future__ import annotations

import time
from typing import Any

from kai_ray.cluster import resources as r
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.rest import RestServer
from kai_ray.manager import Manager
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

JOBS, PODS = 6, 4


def job(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"kai.scheduler/batch-min-member": str(PODS)},
        },
        "spec": {
            "parallelism": PODS,
            "completions": PODS,
            "template": {
                "metadata": {"annotations": {"kai.scheduler/sim-run-time": "0.3s"}},
                "spec": {
                    "schedulerName": "kai-scheduler",
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.example/train:1",
                            "resources": {"limits": {"nvidia.com/gpu": "1"}},
                        }
                    ],
                },
            },
        },
    }


def complete(obj: dict[str, Any]) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)


def test_gangs_are_grouped_placed_and_bound_over_http() -> None:
    with (
        EmbeddedCluster(ClusterConfig.short("1x8"), scheduling=False) as cluster,
        RestServer(cluster.store) as server,
    ):
        cluster.start()
        port = KubePort(server.connection(), lean=True)
        try:
            with Manager(port) as manager:
                for i in range(JOBS):
                    port.create(r.JOB, job(f"j-{i}"))
                end = time.monotonic() + 60
                while sum(map(complete, cluster.store.list(r.JOB).items)) < JOBS:
                    assert time.monotonic() < end, cluster.store.list(r.JOB).items
                    time.sleep(0.1)
                assert manager.unready() == ""
                assert manager.runtime.errors == 0
            assert len(cluster.store.list(r.POD_GROUP).items) == JOBS
            pods = cluster.store.list(r.POD).items
            assert [p["spec"]["nodeName"] for p in pods] == ["node-0"] * (JOBS * PODS)
            assert manager.problem() and manager.unready()
        finally:
            port.close()

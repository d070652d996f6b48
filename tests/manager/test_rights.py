"""With the rights of the chart, and no others, jobs start, share cards, give way and return."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.rest import RestServer, app
from kai_ray.cluster.rest.authorize import Act, allowed
from kai_ray.cluster.rest.users import User
from kai_ray.manager import Manager, rights
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

ACCOUNT = "system:serviceaccount:kai-scheduler:kai-ray"
KINDS = {
    k.kind: k
    for k in (r.SERVICE_ACCOUNT, r.CLUSTER_ROLE, r.CLUSTER_ROLE_BINDING, r.ROLE, r.ROLE_BINDING)
}


def _job(name: str, pods: int, gpus: int, priority: str) -> dict[str, Any]:
    container = {"name": "main", "image": "app", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"priorityClassName": priority},
            "annotations": {"kai.scheduler/batch-min-member": str(pods)},
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def _half(name: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "app"}]
    notes = {"gpu-fraction": "0.5"}
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": notes},
        "spec": {"schedulerName": "kai-scheduler", "containers": containers},
    }


def _wait(done: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)


@pytest.mark.slow
def test_no_right_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[Act] = []

    def watched(store: MemoryStore, user: User, act: Act) -> tuple[bool, str]:
        may, why = allowed(store, user, act)
        if not may:
            refused.append(act)
        return may, why

    monkeypatch.setattr(app, "allowed", watched)
    tokens = {"token-of-administrator": "admin", "token-of-scheduler": User(ACCOUNT)}
    with (
        EmbeddedCluster(ClusterConfig.short("1x8"), scheduling=False) as cluster,
        RestServer(cluster.store, tokens=tokens) as server,
    ):
        store = cluster.store
        for name in ("kai-scheduler", "kai-resource-reservation"):
            store.create(r.NAMESPACE, {"metadata": {"name": name}})
        for made in rights.manifests("kai-ray", "kai-scheduler", "kai-resource-reservation"):
            store.create(KINDS[made["kind"]], made)
        cluster.start()
        port = KubePort(server.connection("token-of-scheduler"), lean=True)

        def running(prefix: str) -> int:
            pods = store.list(r.POD, "default").items
            return sum(
                p["metadata"]["name"].startswith(prefix) and p["status"].get("phase") == "Running"
                for p in pods
            )

        try:
            with Manager(port):
                store.create(r.JOB, _job("low", 2, 3, "train"))
                store.create(r.POD, _half("half"))
                _wait(lambda: running("low") == 2 and running("half") == 1)
                store.create(r.JOB, _job("high", 1, 5, "build-preemptible"))
                _wait(lambda: running("high") == 1 and running("low") == 0)
                store.delete(r.JOB, "high", "default")
                _wait(lambda: running("low") == 2)
        finally:
            port.close()
    assert not refused

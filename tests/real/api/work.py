"""Workloads of these tests, and what became of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Object, Port

Json = dict[str, Any]


def job(name: str, namespace: str, pods: int, *, gpus: int = 1, **labels: str) -> Json:
    """A batch Job whose pods start together or not at all."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels),
            "annotations": {"kai.scheduler/batch-min-member": str(pods)},
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {
                "spec": {
                    "schedulerName": "kai-scheduler",
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.example/train:1",
                            "resources": {"limits": {"nvidia.com/gpu": str(gpus)}},
                        }
                    ],
                }
            },
        },
    }


def bare_pod(name: str, namespace: str) -> Json:
    """A pod that no controller made and no gang holds."""
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "none"}]}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def pods_of(port: Port, namespace: str, name: str) -> list[Object]:
    found = port.list(r.POD, namespace, labels=f"job-name={name}").items
    return [p for p in found if not p["metadata"].get("deletionTimestamp")]


def bound(port: Port, namespace: str, name: str) -> int:
    """How many pods of a Job have a node."""
    return sum(bool(p["spec"].get("nodeName")) for p in pods_of(port, namespace, name))


def until(done: Callable[[], Any], seconds: float = 30.0, what: str = "") -> float:
    """Waits for `done`; how long that took. Fails after `seconds`."""
    begun = time.monotonic()
    while not done():
        assert time.monotonic() < begun + seconds, f"not within {seconds:g} s: {what or done}"
        time.sleep(0.1)
    return time.monotonic() - begun

"""Fill an empty cluster with one-GPU jobs: from ready-made objects to a Plan.

The shape is that of KAI's own allocate benchmark: nodes of 8 GPUs, pending jobs of one pod with one
GPU, four queues under two departments. `--gang T` makes each job a gang of T pods.
"""

from __future__ import annotations

import gc
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.measure import Figures

OPTIONS = {"nodes": 1000, "jobs": 8000, "gang": 1}
Object = dict[str, Any]

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_GPUS = 8


def sizes(options: dict[str, Any]) -> dict[str, int]:
    return {"nodes": options["nodes"], "jobs": options["jobs"], "gang": options["gang"]}


def run(figures: Figures, options: dict[str, Any]) -> None:
    """Prepares the objects, then times reading them and deciding."""
    from kai_ray.encode import Encoder
    from kai_ray.scheduler import decide

    world = objects(options["nodes"], options["jobs"], options["gang"])
    gc.collect()
    gc.freeze()  # the input is not ours to scan
    with figures.part("encode"):
        encoder = Encoder()
        for resource, listed in world:
            encoder.apply_all(resource, listed)
        snapshot = encoder.snapshot(_NOW.timestamp()).snapshot
    with figures.part("decide"):
        plan = decide(snapshot)
    figures.checks["bound"] = len(plan.bind_task)
    figures.checks["waiting"] = len(plan.waits)


def objects(nodes: int, jobs: int, gang: int) -> list[tuple[Any, list[Object]]]:
    """The cluster as the API server would list it."""
    from kai_ray.cluster import resources

    return [
        (resources.QUEUE, _queues(nodes)),
        (resources.NODE, [_node(i) for i in range(nodes)]),
        (resources.POD_GROUP, [_group(i, jobs, gang) for i in range(jobs)]),
        (resources.POD, [_pod(i, jobs, k) for i in range(jobs) for k in range(gang)]),
    ]


def _stamp(minutes: int) -> str:
    return (_NOW + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _queues(nodes: int) -> list[Object]:
    def queue(name: str, parent: str, quota: float, weight: int, minutes: int) -> Object:
        unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        gpu = {"quota": quota, "limit": -1, "overQuotaWeight": weight}
        resources = {"cpu": unlimited, "memory": unlimited, "gpu": gpu}
        return {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": name, "creationTimestamp": _stamp(minutes)},
            "spec": {"resources": resources, **({"parentQueue": parent} if parent else {})},
        }

    whole = nodes * _GPUS
    departments = [queue(f"dept-{d}", "", whole / 2, 0, 0) for d in "ab"]
    leaves = [queue(f"queue-{k}", f"dept-{'ab'[k // 2]}", whole / 4, 1, k) for k in range(4)]
    return departments + leaves


def _node(i: int) -> Object:
    allocatable = {
        "cpu": "20000",
        "memory": "20G",
        "pods": "110",
        "nvidia.com/gpu": str(_GPUS),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{i}", "labels": {"kubernetes.io/hostname": f"node-{i}"}},
        "spec": {},
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _group(i: int, jobs: int, gang: int) -> Object:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": f"job-{i}",
            "namespace": "default",
            "uid": f"pg-{i}",
            "creationTimestamp": _stamp(i - jobs),
        },
        "spec": {"queue": f"queue-{i % 4}", "minMember": gang, "priorityClassName": "train"},
    }


def _pod(i: int, jobs: int, k: int) -> Object:
    requests = {"cpu": "1", "memory": "1G", "nvidia.com/gpu": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"job-{i}-{k}",
            "namespace": "default",
            "uid": f"pod-{i}-{k}",
            "creationTimestamp": _stamp(i - jobs),
            "labels": {"job-name": f"job-{i}"},
            "annotations": {"pod-group-name": f"job-{i}"},
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [
                {
                    "name": "main",
                    "image": "train",
                    "resources": {"requests": requests, "limits": {"nvidia.com/gpu": "1"}},
                }
            ],
        },
        "status": {"phase": "Pending"},
    }

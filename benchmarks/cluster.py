"""Clusters of the shapes of KAI's benchmarks, as the API server would list them.

Nodes have 8 GPUs and so much of the rest that only GPUs bind; a pod asks for whole GPUs, one CPU,
and 1 GB. A job is a gang of its pods. Pending jobs are older the earlier they are listed.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.measure import Figures

Object = dict[str, Any]

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GPUS = 8


@dataclass(frozen=True)
class JobShape:
    """A job of equal pods; `node` is where its pods run, none while it waits."""

    name: str
    queue: str
    minutes: int  # when it was created, from now
    pods: int = 1
    gpus: int = 1
    node: str = ""


def stamp(minutes: int) -> str:
    return (NOW + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def listed(nodes: int, queues: Sequence[Object], jobs: Sequence[JobShape]) -> list[Any]:
    """(resource, objects) of everything, in an order in which they can be read."""
    from kai_ray.cluster import resources

    return [
        (resources.QUEUE, list(queues)),
        (resources.NODE, [node(i) for i in range(nodes)]),
        (resources.POD_GROUP, [_group(job) for job in jobs]),
        (resources.POD, [_pod(job, k) for job in jobs for k in range(job.pods)]),
    ]


def timed(figures: Figures, world: list[Any]) -> None:
    """Times reading what is `listed` and deciding, and notes what came of it."""
    from kai_ray.encode import Encoder
    from kai_ray.scheduler import decide

    gc.collect()
    gc.freeze()  # the input is not ours to scan
    with figures.part("encode"):
        encoder = Encoder()
        for resource, objects in world:
            encoder.apply_all(resource, objects)
        snapshot = encoder.snapshot(NOW.timestamp()).snapshot
    with figures.part("decide"):
        plan = decide(snapshot)
    figures.checks["bound"] = len(plan.bind_task)
    figures.checks["nominated"] = len(plan.nominate_task)
    figures.checks["evicted"] = len(plan.evict_task)
    figures.checks["waiting"] = len(plan.waits)


def queue(name: str, parent: str, quota: float, weight: int, minutes: int) -> Object:
    """A queue with a GPU quota; CPU and memory without bounds."""
    unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    gpu = {"quota": quota, "limit": -1, "overQuotaWeight": weight}
    resources = {"cpu": unlimited, "memory": unlimited, "gpu": gpu}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name, "creationTimestamp": stamp(minutes)},
        "spec": {"resources": resources, **({"parentQueue": parent} if parent else {})},
    }


def node(i: int) -> Object:
    allocatable = {"cpu": "20000", "memory": "20G", "pods": "110", "nvidia.com/gpu": str(GPUS)}
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


def _group(job: JobShape) -> Object:
    started = {"kai.scheduler/last-start-timestamp": stamp(-1)} if job.node else {}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": job.name,
            "namespace": "default",
            "uid": f"pg-{job.name}",
            "creationTimestamp": stamp(job.minutes),
            "annotations": started,
        },
        "spec": {"queue": job.queue, "minMember": job.pods, "priorityClassName": "train"},
    }


def _pod(job: JobShape, k: int) -> Object:
    requests = {"cpu": "1", "memory": "1G", "nvidia.com/gpu": str(job.gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job.name}-{k}",
            "namespace": "default",
            "uid": f"pod-{job.name}-{k}",
            "creationTimestamp": stamp(job.minutes),
            "labels": {"job-name": job.name},
            "annotations": {"pod-group-name": job.name},
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [
                {
                    "name": "main",
                    "image": "train",
                    "resources": {
                        "requests": requests,
                        "limits": {"nvidia.com/gpu": str(job.gpus)},
                    },
                }
            ],
            **({"nodeName": job.node} if job.node else {}),
        },
        "status": {"phase": "Running" if job.node else "Pending"},
    }

"""A cluster whose jobs say how busy they keep their GPUs, and a queue with a rule for idle ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object, Resource
from kai_ray.controllers.conditions import find
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

MINUTE = 60.0


class World:
    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.port = cluster.client
        self.told: list[tuple[str, str]] = []  # (reason, message) of what is notified
        cluster.control.idle.told.append(lambda key, reason, text: self.told.append((reason, text)))

    def queue(self, name: str, rule: str = "", hours: str = "", parent: str = "") -> None:
        notes = {L.IDLE_JOBS: rule} if rule else {}
        notes |= {L.PROTECTED_HOURS: hours} if hours else {}
        every = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        spec: Object = {"resources": dict.fromkeys(("gpu", "cpu", "memory"), every)}
        if parent:
            spec["parentQueue"] = parent
        self.port.create(
            kinds.QUEUE, {"metadata": {"name": name, "annotations": notes}, "spec": spec}
        )

    def rule(self, queue: str, rule: str | None) -> None:
        self.annotate(kinds.QUEUE, queue, {L.IDLE_JOBS: rule}, "")

    def job(
        self,
        name: str,
        busy: str,
        queue: str = "team",
        pods: int = 2,
        gpus: int = 4,
        kind: str = "",
        notes: Object | None = None,
    ) -> None:
        """`kind`: its workload type."""
        container = {
            "name": "main",
            "image": "app",
            "resources": {"limits": {"nvidia.com/gpu": gpus}},
        }
        labels = {L.QUEUE: queue, **({L.WORKLOAD_TYPE: kind} if kind else {})}
        said = {L.SIM_GPU_USE: busy, L.BATCH_MIN_MEMBER: str(pods), L.RUN_TIME: "1000h"}
        self.create(
            kinds.JOB,
            {
                "metadata": {
                    "name": name,
                    "labels": labels,
                    "annotations": {**said, **(notes or {})},
                },
                "spec": {
                    "parallelism": pods,
                    "completions": pods,
                    "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
                },
            },
        )

    def create(self, resource: Resource, obj: Object) -> None:
        obj["metadata"].setdefault("namespace", "default")
        self.port.create(resource, obj)

    def annotate(
        self, resource: Resource, name: str, notes: dict[str, Any], namespace: str = "default"
    ) -> None:
        self.port.patch(resource, name, {"metadata": {"annotations": notes}}, namespace)

    def run(self, minutes: float) -> None:
        self.cluster.run_for(minutes * MINUTE)

    # ------------------------------------------------------------------ what came of it

    def group(self, job: str) -> Object:
        found = [
            g
            for g in self.port.list(kinds.POD_GROUP, "default").items
            if g["metadata"]["name"].startswith(f"pg-{job}")
        ]
        assert len(found) == 1, [g["metadata"]["name"] for g in found]
        return found[0]

    def idle(self, job: str) -> str:
        """The reason of the condition Idle; "" unless it is True."""
        said = find(self.group(job), "Idle")
        return said["reason"] if said.get("status") == "True" else ""

    def running(self, job: str) -> int:
        return sum(
            p["metadata"]["name"].startswith(job)
            and (p.get("status") or {}).get("phase") == "Running"
            and not p["metadata"].get("deletionTimestamp")
            for p in self.port.list(kinds.POD, "default").items
        )

    def events(self, job: str, kind: str = "Job") -> list[str]:
        return [
            e["reason"]
            for e in self.port.list(kinds.EVENT, "default").items
            if e["involvedObject"]["kind"] == kind and e["involvedObject"]["name"] == job
        ]


@contextmanager
def world(nodes: int = 2, state_dir: Any = None, period: float = 30) -> Iterator[World]:
    raw = {
        "nodePools": [{"name": "n", "count": nodes, "gpus": 8}],
        "gpuUse": {"periodSeconds": period},
    }
    with EmbeddedCluster(ClusterConfig.of(raw), VirtualClock(), state_dir) as cluster:
        yield World(cluster)

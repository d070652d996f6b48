"""A cluster in virtual time whose events are written down, and the jobs that it gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object
from kai_ray.history.job_event import JobEvent
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


class World:
    """`run` moves the clock; `told` are the events so far."""

    def __init__(self, shape: str = "2x4", state: Path | None = None, **more: Any) -> None:
        """`gpu_use_s`: how often a simulated node tells what its GPUs do; else never."""
        clock = more.pop("clock", None) or VirtualClock()
        period_s = more.pop("gpu_use_s", None)
        config = ClusterConfig.short(shape)
        if period_s is not None:
            config = ClusterConfig.of(
                {
                    "nodePools": [{"name": "node", "count": 1, "gpus": 4}],
                    "gpuUse": {"periodSeconds": period_s},
                }
            )
        self.cluster = EmbeddedCluster(config, clock, state, **more)
        self.sight = self.cluster.composition.sight
        self.told: list[JobEvent] = []
        self.sight.subscribe(self.told.append)

    def __enter__(self) -> World:
        return self

    def __exit__(self, *exc: object) -> None:
        self.cluster.stop()

    @property
    def now(self) -> float:
        return self.cluster.clock.now()

    def queue(self, name: str, gpus: float, **more: Any) -> None:
        amounts = {"gpu": {**UNLIMITED, "quota": gpus}, "cpu": UNLIMITED, "memory": UNLIMITED}
        self.cluster.store.create(
            R.QUEUE, {"metadata": {"name": name}, "spec": {"resources": amounts, **more}}
        )

    def job(
        self,
        name: str,
        queue: str,
        pods: int = 1,
        gpus: int = 1,
        seconds: int = 60,
        least: int | None = None,
        exit_code: int = 0,
        tries: int = 0,
        use: str = "",
        user: str = "ada",
    ) -> Object:
        """A Job of which `least` pods must run together; all of them, unless said."""
        labels = {L.QUEUE: queue, L.USER: user}
        notes = {L.RUN_TIME: f"{seconds}s", L.EXIT_CODE: str(exit_code)}
        notes |= {L.SIM_GPU_USE: use} if use else {}
        container = {"name": "main", "image": "x", "resources": {"limits": {L.NVIDIA_GPU: gpus}}}
        made = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": labels,
                "annotations": {L.BATCH_MIN_MEMBER: str(pods if least is None else least)},
            },
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "backoffLimit": tries,
                "template": {
                    "metadata": {"labels": labels, "annotations": notes},
                    "spec": {
                        "schedulerName": L.SCHEDULER_NAME,
                        "restartPolicy": "Never",
                        "containers": [container],
                    },
                },
            },
        }
        return self.cluster.store.create(R.JOB, made)

    def run(self, seconds: float) -> None:
        self.cluster.run_for(seconds)

    def life(self, name: str) -> list[JobEvent]:
        return sorted((e for e in self.told if e.name == name), key=lambda e: e.at_s)

    def words(self, name: str) -> list[str]:
        return [event.what for event in self.life(name)]

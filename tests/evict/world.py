"""A cluster with two queues, workloads of real kinds, and an eye on who had to leave."""

from __future__ import annotations

from typing import Any

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object, Resource
from kai_ray.controllers.drainer import Drainer
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

EVICTED = ("Reclaimed", "Preempted", "Consolidated", "StaleGang")


class EvictWorld:
    """Virtual time. Pods of jobs run for an hour unless a test says otherwise."""

    def __init__(
        self,
        size: str = "2x8",
        state_dir: Any = None,
        clock_s: float | None = None,
        drainer: Drainer | None = None,
    ):
        clock = VirtualClock() if clock_s is None else VirtualClock(clock_s)
        config = ClusterConfig.short(size)
        self.cluster = EmbeddedCluster(config, clock, state_dir, drainer=drainer)
        self.store = self.cluster.store
        #: (pod, uid) of every pod that had a node and was told to go.
        self.told: dict[str, int] = {}

    def __enter__(self) -> EvictWorld:
        return self

    def __exit__(self, *exc: object) -> None:
        self.cluster.stop()

    def queue(self, name: str, quota: float, *, parent: str = "", **more: Any) -> None:
        annotations = more.pop("annotations", {})
        gpu = {"quota": quota, "limit": -1, "overQuotaWeight": 1}
        free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        spec = {"resources": {"gpu": gpu, "cpu": free, "memory": free}, **more}
        if parent:
            spec["parentQueue"] = parent
        meta = {"name": name, "annotations": annotations}
        self.store.create(R.QUEUE, {"metadata": meta, "spec": spec})

    def queues(self, **quotas: float) -> None:
        for name, quota in quotas.items():
            self.queue(name, quota)

    def create(self, resource: Resource, name: str, spec: Object, queue: str, **more: Any) -> None:
        labels = {L.QUEUE: queue, **more.pop("labels", {})}
        annotations = {L.RUN_TIME: "3600s", **more.pop("annotations", {})}
        meta = {"name": name, "namespace": "default", "labels": labels, "annotations": annotations}
        self.store.create(resource, {"metadata": meta, "spec": {**spec, **more}})

    def job(
        self,
        name: str,
        queue: str,
        pods: int,
        gpus: int = 1,
        *,
        minimum: int | None = None,
        priority: str = "",
        **more: Any,
    ) -> None:
        """A Job whose pods start together."""
        annotations = {L.BATCH_MIN_MEMBER: str(minimum or pods), **more.pop("annotations", {})}
        labels = more.pop("labels", {})
        if priority:
            labels[L.PRIORITY_CLASS] = priority
        spec: Object = {"parallelism": pods, "completions": pods, "backoffLimit": 0}
        spec["template"] = {"spec": pod_spec(gpus)}
        self.create(R.JOB, name, spec, queue, annotations=annotations, labels=labels, **more)

    def torch(self, name: str, queue: str, pods: int, gpus: int = 1, **more: Any) -> None:
        role = {"restartPolicy": "OnFailure", "template": {"spec": pod_spec(gpus, "pytorch")}}
        roles = {"Master": {"replicas": 1, **role}, "Worker": {"replicas": pods - 1, **role}}
        self.create(R.PYTORCH_JOB, name, {"pytorchReplicaSpecs": roles}, queue, **more)

    def deployment(self, name: str, queue: str, replicas: int, gpus: int = 1, **more: Any) -> None:
        labels = {"app": name, L.QUEUE: queue, **more.pop("labels", {})}
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {**pod_spec(gpus), "restartPolicy": "Always"},
            },
        }
        self.create(R.DEPLOYMENT, name, spec, queue, labels=labels, **more)

    def ray_job(self, name: str, queue: str, workers: int, gpus: int = 1, **more: Any) -> None:
        spec = {
            "entrypoint": "python run.py",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": ray_spec(workers, gpus),
        }
        self.create(R.RAY_JOB, name, {**spec, **more.pop("spec", {})}, queue, **more)

    def bare(self, name: str, queue: str, gpus: int = 1, **labels: str) -> None:
        meta = {"name": name, "namespace": "default", "labels": {L.QUEUE: queue, **labels}}
        meta["annotations"] = {L.RUN_TIME: "3600s"}
        self.store.create(R.POD, {"metadata": meta, "spec": pod_spec(gpus)})

    def run(self, seconds: float) -> None:
        self.cluster.run_for(seconds)

    def until(self, done: Any, seconds: float = 120.0) -> bool:
        return self.cluster.run_until(done, seconds)

    def pods(self, prefix: str = "") -> list[Object]:
        found = self.store.list(R.POD, "default").items
        return [p for p in found if p["metadata"]["name"].startswith(prefix)]

    def running(self, prefix: str = "") -> list[str]:
        return [
            p["metadata"]["name"]
            for p in self.pods(prefix)
            if (p.get("status") or {}).get("phase") == "Running"
            and not p["metadata"].get("deletionTimestamp")
        ]

    def evictions(self, kind: str = "PodGroup") -> list[tuple[str, str, int]]:
        """(object, reason, how often) of all that had to leave."""
        return sorted(
            (e["involvedObject"]["name"], e["reason"], int(e.get("count") or 1))
            for e in self.store.list(R.EVENT).items
            if e["reason"] in EVICTED and e["involvedObject"]["kind"] == kind
        )

    def events(self, name: str) -> list[tuple[str, str]]:
        return [
            (e["reason"], e["message"])
            for e in self.store.list(R.EVENT).items
            if name in e["involvedObject"]["name"]
        ]

    def group(self, name: str) -> Object:
        """The PodGroup whose name contains `name`."""
        found = [g for g in self.groups() if name in g["metadata"]["name"]]
        assert len(found) == 1, [g["metadata"]["name"] for g in self.groups()]
        return found[0]

    def groups(self) -> list[Object]:
        return self.store.list(R.POD_GROUP, "default").items

    def annotations(self, name: str) -> dict[str, str]:
        return self.group(name)["metadata"].get("annotations") or {}


def pod_spec(gpus: int, container: str = "main", **more: Any) -> Object:
    limits = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    made = {"name": container, "image": "app", "resources": {"limits": limits}}
    return {"restartPolicy": "Never", "containers": [made], **more}


def ray_spec(workers: int, gpus: int = 1, **group: Any) -> Object:
    worker = {
        "groupName": "w",
        "replicas": workers,
        "minReplicas": workers,
        "maxReplicas": workers,
        "rayStartParams": {},
        "template": {"spec": {"containers": pod_spec(gpus, "ray")["containers"]}},
        **group,
    }
    head = {"spec": {"containers": pod_spec(0, "ray")["containers"]}}
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": head},
        "workerGroupSpecs": [worker],
    }

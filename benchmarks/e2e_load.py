"""A burst of one-GPU pods on an API server, and when each of them was bound."""

from __future__ import annotations

import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

from kai_ray.api import labels
from kai_ray.cluster import resources as r
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.port import Object, Unavailable

CREATORS = 16
QUEUE = "default-queue"


@dataclass(frozen=True)
class Timing:
    """Seconds since the first pod was asked for."""

    created: dict[str, float]
    bound_at: dict[str, float]

    @property
    def bound(self) -> int:
        return len(self.bound_at)

    @property
    def create_s(self) -> float:
        return max(self.created.values())

    @property
    def pods_per_s(self) -> float:
        return self.bound / max(self.bound_at.values()) if self.bound_at else 0.0

    def percentile_ms(self, percent: int) -> float:
        # A pod may be seen bound before the answer to its creation has been read.
        waits = [max(0.0, at - self.created[name]) for name, at in self.bound_at.items()]
        if len(waits) < 2:
            return float("nan")
        return 1000 * statistics.quantiles(waits, n=100, method="inclusive")[percent - 1]


class Load:
    """`create` asks for all pods; a watch notes when each is bound. Use it with `with`."""

    def __init__(self, port: KubePort, namespace: str, scheduler_name: str, pods: int) -> None:
        self._port = port
        self._namespace = namespace
        self._pods = [_pod(f"p{i}", namespace, scheduler_name) for i in range(pods)]
        self._created: dict[str, float] = {}
        self._bound: dict[str, float] = {}
        self._ended = threading.Event()
        self._begun = time.perf_counter()

    def __enter__(self) -> Load:
        version = self._port.list(r.POD, self._namespace, limit=1).resource_version
        self._watch = self._port.watch(r.POD, self._namespace, resource_version=version)
        self._watcher = threading.Thread(target=self._note, daemon=True)
        self._watcher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._watch.close()
        self._watcher.join(timeout=5)

    def create(self) -> None:
        self._begun = time.perf_counter()
        with ThreadPoolExecutor(CREATORS) as creators:
            for name, at in creators.map(self._create, self._pods):
                self._created[name] = at

    def done(self) -> bool:
        return len(self._bound) == len(self._pods)

    def timing(self) -> Timing:
        return Timing(self._created, dict(self._bound))

    def _create(self, pod: Object) -> tuple[str, float]:
        self._port.create(r.POD, pod)
        return pod["metadata"]["name"], time.perf_counter() - self._begun

    def _note(self) -> None:
        while not self._ended.is_set():
            event = self._watch.next(0.5)
            if event is None or event.type == "BOOKMARK":
                continue
            name = event.object["metadata"]["name"]
            if event.object["spec"].get("nodeName") and name not in self._bound:
                self._bound[name] = time.perf_counter() - self._begun


def empty(port: KubePort, namespace: str) -> None:
    """Deletes all pods of a namespace and waits until they are gone."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    while port.list(r.POD, namespace, limit=1).items:
        with suppress(Unavailable):  # thousands may take longer than one answer
            port.raw("DELETE", f"{path}?gracePeriodSeconds=0")
        time.sleep(0.5)


def _pod(name: str, namespace: str, scheduler_name: str) -> Object:
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {labels.QUEUE: QUEUE}},
        "spec": {
            "schedulerName": scheduler_name,
            "nodeSelector": {"bench": "true"},
            "containers": [{"name": "main", "image": "none", "resources": resources}],
        },
    }

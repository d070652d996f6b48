"""Every pod that was ever there, its first and its last state: finished workloads lose theirs."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable

from kai_ray.cluster import resources as R
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.port import ApiError, Object


class Seen:
    """Watches all pods in a thread of its own until `stop`."""

    def __init__(self, port: KubePort) -> None:
        self._port = port
        self._pods: dict[str, Object] = {}
        self._first: dict[str, Object] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="seen", daemon=True)
        self._thread.start()

    def pods(self, namespace: str, workload: str) -> list[Object]:
        """Pods whose name begins with the workload's, oldest first; also those that are gone."""
        return self._of(self._pods, namespace, workload)

    def first(self, namespace: str, workload: str) -> list[Object]:
        """The same pods as they were when they were first seen."""
        return self._of(self._first, namespace, workload)

    def _of(self, pods: dict[str, Object], namespace: str, workload: str) -> list[Object]:
        with self._lock:
            found = [copy.copy(p) for p in pods.values()]
        return [
            p
            for p in found
            if p["metadata"]["namespace"] == namespace
            and p["metadata"]["name"].startswith(f"{workload}-")
        ]

    def wait(
        self,
        namespace: str,
        workload: str,
        done: Callable[[list[Object]], bool],
        seconds: float = 60.0,
    ) -> list[Object]:
        """The workload's pods, once `done` of them or after `seconds`: the caller asserts."""
        end = time.monotonic() + seconds
        while not done(found := self.pods(namespace, workload)) and time.monotonic() < end:
            time.sleep(0.1)
        return found

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(5)

    def _watch(self) -> None:
        version = ""
        while not self._ended.is_set():
            try:
                if not version:
                    page = self._port.list(R.POD)
                    version = page.resource_version
                    for pod in page.items:
                        self._keep(pod)
                watch = self._port.watch(R.POD, resource_version=version)
                try:
                    while not self._ended.is_set():
                        event = watch.next(0.2)
                        if event is not None:
                            version = event.object["metadata"]["resourceVersion"]
                            self._keep(event.object)
                finally:
                    watch.close()
            except ApiError:
                version = ""
                self._ended.wait(0.2)

    def _keep(self, pod: Object) -> None:
        if "uid" in pod["metadata"]:
            with self._lock:
                self._pods[pod["metadata"]["uid"]] = pod
                self._first.setdefault(pod["metadata"]["uid"], pod)


def node_of(pod: Object) -> str:
    return pod["spec"].get("nodeName") or ""


def all_bound(least: int) -> Callable[[list[Object]], bool]:
    """`least` pods or more, each with a node."""
    return lambda pods: len(pods) >= least and all(node_of(p) for p in pods)

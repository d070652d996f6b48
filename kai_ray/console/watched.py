"""A cluster that is only looked at: the console keeps its own caches, on a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kai_ray.cluster.clock import SystemClock
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.kubeconfig import Connection
from kai_ray.cluster.port import BadRequest, Page, Resource, Watch
from kai_ray.cluster.runtime import Runtime
from kai_ray.console.cluster import Cluster, Records

#: How long one request may take, and how long a stream may be silent.
PATIENCE_S, SILENCE_S = 5.0, 20.0


class NamespacePort(KubePort):
    """For who may see one namespace: what lists and watches all namespaces means that one."""

    def __init__(self, connection: Connection, namespace: str, **options: Any) -> None:
        super().__init__(connection, **options)
        self._only = namespace

    def list(self, resource: Resource, namespace: str | None = None, **options: Any) -> Page:
        return super().list(resource, self._one(resource, namespace), **options)

    def watch(self, resource: Resource, namespace: str | None = None, **options: Any) -> Watch:
        return super().watch(resource, self._one(resource, namespace), **options)

    def watch_list(
        self, resource: Resource, *, on_event: Callable[[], None] | None = None
    ) -> Watch:
        raise BadRequest("one namespace is listed, then watched")

    def _one(self, resource: Resource, namespace: str | None) -> str | None:
        return namespace or (self._only if resource.namespaced else None)


class Watched:
    """`start`, then `cluster` fills by itself, also when the server comes up later; `stop`."""

    def __init__(
        self,
        name: str,
        connection: Connection,
        *,
        home: bool,
        namespace: str = "",
        records: Records | None = None,
    ) -> None:
        options: dict[str, Any] = {"timeout_s": PATIENCE_S, "attempts": 1, "silence_s": SILENCE_S}
        if namespace:
            self.caches: KubePort = NamespacePort(connection, namespace, lean=True, **options)
        else:
            self.caches = KubePort(connection, lean=True, **options)
        self.port = KubePort(connection, timeout_s=PATIENCE_S, attempts=1)
        self.runtime = Runtime(self.caches, SystemClock())
        self.cluster = Cluster(name, lambda: self.runtime, self.port, home=home, records=records)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kai-watched", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """May be called twice."""
        self.runtime.stop()
        if self._thread is not None:
            self._thread.join(timeout=2 * PATIENCE_S)
        self.runtime.close()
        self.caches.close()
        self.port.close()

    def _run(self) -> None:
        self.cluster.health()  # names what is to be watched
        self.runtime.run_forever()

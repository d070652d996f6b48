"""The worlds that the contract suite runs on: the memory store, the REST face, the real server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass

from kai_ray.api.crd import crds, workload_crds
from kai_ray.cluster import resources as r
from kai_ray.cluster.kube import KubePort, connect
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import AlreadyExists, Object, Port
from kai_ray.cluster.rest.server import RestServer


@dataclass(frozen=True)
class Backend:
    """A port to test. `compact` makes it forget its history, where it can."""

    port: Port
    compact: Callable[[], None] | None = None


def _store() -> MemoryStore:
    store = MemoryStore()
    install_defaults(store)
    return store


@contextmanager
def memory() -> Iterator[Backend]:
    store = _store()
    yield Backend(store, store.compact)
    store.close()


@contextmanager
def rest() -> Iterator[Backend]:
    store = _store()
    with RestServer(store) as server:
        port = KubePort(server.connection())
        yield Backend(port, store.compact)
        port.close()
    store.close()


@contextmanager
def real(kubeconfig: str) -> Iterator[Backend]:
    """The API server that a kubeconfig names, with Kubernetes' own controllers."""
    port = connect(kubeconfig)
    for manifest in (*crds(), *workload_crds()):
        with suppress(AlreadyExists):
            port.create(r.CRD, manifest)
    end = time.monotonic() + 30
    while not all(map(_established, port.list(r.CRD).items)) and time.monotonic() < end:
        time.sleep(0.1)
    install_defaults(port)
    yield Backend(port)
    port.close()


def _established(crd: Object) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


BACKENDS: dict[str, Callable[[], AbstractContextManager[Backend]]] = {
    "memory": memory,
    "rest": rest,
}

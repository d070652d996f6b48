"""The worlds that the contract suite runs on. A new one is a function and a line in BACKENDS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import Port
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


BACKENDS: dict[str, Callable[[], AbstractContextManager[Backend]]] = {
    "memory": memory,
    "rest": rest,
}

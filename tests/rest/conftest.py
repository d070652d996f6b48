"""A memory store behind its REST face, and ways to talk to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.rest import RestServer, User

TOKENS = {
    "administrator-token": "admin",
    "plain-user-token": User("ann", ("staff",)),
}
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def store() -> MemoryStore:
    made = MemoryStore()
    install_defaults(made)
    return made


@pytest.fixture(scope="session")
def server(store: MemoryStore) -> Iterator[RestServer]:
    with RestServer(store, tokens=TOKENS) as running:
        yield running


@pytest.fixture(scope="session")
def port(server: RestServer) -> Iterator[KubePort]:
    made = KubePort(server.connection())
    yield made
    made.close()


@pytest.fixture
def namespace(store: MemoryStore) -> str:
    """A namespace of the test's own."""
    name = f"rest-{next(_numbers)}"
    store.create(r.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name

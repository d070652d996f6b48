from __future__ import annotations

from collections.abc import Iterator

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Port
from tests.contract.backends import BACKENDS, Backend
from tests.contract.objects import eventually, is_gone


@pytest.fixture(scope="module", params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with BACKENDS[request.param]() as found:
        yield found


@pytest.fixture
def port(backend: Backend) -> Port:
    return backend.port


@pytest.fixture
def ns(port: Port) -> str:
    """A namespace of the test's own."""
    name = port.create(r.NAMESPACE, {"metadata": {"generateName": "story-"}})["metadata"]["name"]
    assert eventually(lambda: not is_gone(port, r.CONFIG_MAP, "kube-root-ca.crt", name))
    return name

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Port
from tests.contract.backends import BACKENDS, Backend

_count = itertools.count()


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
    name = f"story-{next(_count)}"
    port.create(r.NAMESPACE, {"metadata": {"name": name}})
    return name

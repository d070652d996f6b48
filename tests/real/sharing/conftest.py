"""The same stories on the embedded store and on a real API server with fake nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.sharing.stage import MemoryStage, RealStage, Stage


@pytest.fixture
def memory() -> Iterator[Stage]:
    with MemoryStage() as stage:
        yield stage


@pytest.fixture
def real(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with RealStage(request.getfixturevalue("plane")) as stage:
        yield stage


@pytest.fixture(params=["memory", pytest.param("real", marks=pytest.mark.real)])
def stage(request: pytest.FixtureRequest) -> Stage:
    return request.getfixturevalue(request.param)

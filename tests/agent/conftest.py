from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent import stand_in


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stand_in.built(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def machine(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[stand_in.Machine]:
    found = stand_in.Machine(tmp_path, library, monkeypatch)
    yield found
    found.close()

"""One fleet of operators for all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts import ray_env
from tests.real.control_plane import ControlPlane
from tests.real.fixtures import RUNNING, need
from tests.real.network import possible
from tests.real.operators import fleet as fleets
from tests.real.operators.fleet import Fleet
from tests.real.operators.kinds import FITS, TOO_BIG, table
from tests.real.operators.operators import PROGRAMS


@pytest.fixture(scope="package")
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Every operator on one plane: use names of your own in its namespaces."""
    need()
    need(*PROGRAMS)
    if not possible():
        pytest.skip("no network namespaces here: needs Linux, and root or user namespaces")
    planes: list[ControlPlane] = request.config.stash.setdefault(RUNNING, [])
    with fleets.running(tmp_path_factory.mktemp("fleet") / "run") as running:
        planes.append(running.plane)
        yield running
        planes.remove(running.plane)


@pytest.fixture(scope="package")
def ray_home() -> Path:
    """The environment of a real Ray, which `make parts` makes."""
    home = ray_env.find()
    if home is None:
        reason = "the environment of a real Ray is absent: run `make parts`"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return home


@pytest.fixture(scope="package")
def submitted(fleet: Fleet) -> Fleet:
    """The whole table of kinds and routes at once, each twice: as it fits, and a pod too big."""
    sizes = (FITS, TOO_BIG)
    for size in sizes:
        for kind, route in table():
            fleet.submit(route, *kind.workload(route, size)[1])
    for kind, route in table():
        if kind.repeats:
            for manifest in (m for size in sizes for m in kind.workload(route, size)[1]):
                fleet.repeat_no_more(route, manifest)
    return fleet

"""Control planes for tests, each started once and shared, and what keeps tests on them apart.

A test that uses one of these is marked `real` by that: it runs early, is skipped where the real
programs are not built (where CI is set it fails instead), and shows the end of every program's log
when it fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import ApiError
from tests.real.control_plane import ControlPlane, missing
from tests.real.network import possible

#: In the order in which their tests run.
PLANES = ("plane", "isolated_plane", "fleet", "new_plane")
RUNNING = pytest.StashKey[list[ControlPlane]]()


def need(*programs: str) -> None:
    """Skips the test if a part (default: of the control plane) is not built; fails it in CI."""
    absent = missing(*programs)
    if not absent:
        return
    reason = f"{', '.join(absent)} not built: run `make parts`"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """API server, controllers and fake nodes, shared: use a namespace and nodes of your own."""
    need()
    yield from running(request, ControlPlane(tmp_path_factory.mktemp("plane") / "run"))


@pytest.fixture(scope="session")
def isolated_plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """The same in a network of its own, for programs that take fixed ports or all addresses."""
    need()
    if not possible():
        reason = "no network namespaces here: needs Linux, and root or user namespaces"
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("isolated") / "run"
    yield from running(request, ControlPlane(folder, isolated=True))


@pytest.fixture
def new_plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., ControlPlane]]:
    """Starts planes of the test's own, for tests that stop or change parts of them."""
    need()
    started: list[Iterator[ControlPlane]] = []

    def start(**options: Any) -> ControlPlane:
        folder = tmp_path_factory.mktemp("own") / "run"
        started.append(running(request, ControlPlane(folder, **options)))
        return next(started[-1])

    yield start
    for life in reversed(started):
        next(life, None)


def running(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[ControlPlane]:
    planes = request.config.stash.setdefault(RUNNING, [])
    with plane:
        planes.append(plane)
        yield plane
        planes.remove(plane)


@pytest.fixture
def gpu_nodes(plane: ControlPlane) -> Iterator[Callable[..., list[str]]]:
    """`plane.gpu_nodes`, for nodes that end with the test."""
    yield from _passing_nodes(plane)


@pytest.fixture
def isolated_gpu_nodes(isolated_plane: ControlPlane) -> Iterator[Callable[..., list[str]]]:
    yield from _passing_nodes(isolated_plane)


def _passing_nodes(plane: ControlPlane) -> Iterator[Callable[..., list[str]]]:
    made: list[str] = []

    def make(*args: Any, **options: Any) -> list[str]:
        names = plane.gpu_nodes(*args, **options)
        made.extend(names)
        return names

    yield make
    plane.remove_nodes(made)


@pytest.fixture
def real_namespace(plane: ControlPlane) -> Iterator[str]:
    """A namespace of the shared plane; what is in it goes when the test ends."""
    name = plane.namespace()
    yield name
    try:
        plane.port.delete(r.NAMESPACE, name)
    except ApiError as error:
        pytest.fail(f"{name} cannot be deleted: {error}")


# Hooks


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("real") or _plane_of(item):
            item.add_marker("real")
    # Sorting is stable: within one plane, tests stay in the order of their files.
    items.sort(key=_turn)


def _plane_of(item: pytest.Item) -> str:
    """The fixture that gives the plane to the test, "" if it uses none."""
    used: set[str] = set(getattr(item, "fixturenames", ()))
    return next((name for name in reversed(PLANES) if name in used), "")


def _turn(item: pytest.Item) -> int:
    if not item.get_closest_marker("real"):
        return len(PLANES) + 1
    found = _plane_of(item)
    return PLANES.index(found) if found else 0


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome: Any = yield
    report: pytest.TestReport = outcome.get_result()
    if not report.failed:
        return
    for plane in item.config.stash.get(RUNNING, []):
        report.sections.append((f"control plane, logs in {plane.programs.logs}", plane.logs()))
        report.sections.append(("its pods", "\n".join(plane.pods().splitlines()[-60:])))

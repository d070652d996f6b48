"""A control plane with our chart on it. Of their own: what the chart makes is cluster-wide."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.chart.release import Release
from tests.real.control_plane import CORE, ControlPlane
from tests.real.fixtures import need, running


@pytest.fixture(scope="package")
def chart_plane(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    need(*CORE, "helm")
    for plane in running(request, ControlPlane(tmp_path_factory.mktemp("chart") / "run")):
        plane.gpu_nodes(2, labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
        yield plane


@pytest.fixture(scope="module")
def release(chart_plane: ControlPlane) -> Iterator[Release]:
    """Installed, and its process running; gone with the module."""
    made = Release(chart_plane)
    made.values["admission"]["webhook"]["everyPod"] = True
    made.install()
    try:
        made.start()
        yield made
    finally:
        made.stop()
        made.uninstall()

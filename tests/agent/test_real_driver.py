"""The same on a machine with a GPU: the agent beside the driver that is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kai_ray.agent.library import LIBRARY
from kai_ray.gpu.node_use import read

ROOT = Path(__file__).parents[2]
_ENV = {name: value for name, value in os.environ.items() if name != LIBRARY}


def _run(*command: str) -> Any:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT, env=_ENV, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def told() -> Any:
    """What was told after some looks, and the part of a core that they took."""
    seen = _run("-c", "from kai_ray.cli import main; main()", "agent", "--once")
    if not seen["devices"]:
        pytest.skip(f"no NVIDIA GPU on this machine: {seen['problem']}")
    return _run("-m", "tests.agent.real_agent")


def test_a_real_gpu_is_told_of(told: Any) -> None:
    node = read({"metadata": {"name": "here"}, "status": told["status"]})
    assert node.driver and node.source == "nvml" and node.devices
    for device in node.devices:
        assert device.uuid.startswith("GPU-") and device.model
        assert device.memory_mib and device.memory_mib > 1000
        assert device.used_mib is not None and 0 <= device.used_mib <= device.memory_mib
        assert device.mig or (device.utilization is not None and 0 <= device.utilization <= 1)
        assert device.healthy, device.problem


def test_it_costs_little_even_when_it_looks_every_second(told: Any) -> None:
    assert told["cost"] < 0.05  # the DaemonSet looks every ten: a tenth of that

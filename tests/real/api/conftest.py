"""What the tests of this folder share: our definitions on the plane, our process beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kai_ray.cluster.defaults import install_queues
from kai_ray.manager.install import install_definitions
from tests.real.control_plane import ControlPlane
from tests.real.programs import Program

#: `kai`, of this very checkout.
KAI = ["-c", "from kai_ray.cli import main; main()"]


@pytest.fixture
def ours(plane: ControlPlane) -> ControlPlane:
    """The plane with our definitions and default queues."""
    install_definitions(plane.port)
    install_queues(plane.port)
    return plane


@pytest.fixture
def kai_run(ours: ControlPlane) -> Iterator[Callable[..., Program]]:
    """Starts `kai run` with more arguments; all end with the test."""
    started: list[Program] = []

    def start(*args: str, name: str = "kai", env: dict[str, str] | None = None) -> Program:
        command = [*KAI, "run", "--health", "127.0.0.1:0", "-v", *args]
        program = ours.run(Path(sys.executable), command, name=name, env=env)
        started.append(program)
        return program

    yield start
    for program in started:
        program.kill()

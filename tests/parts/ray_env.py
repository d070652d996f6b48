"""The environment in which tests run a real Ray (python_env.py): as users install it, with Tune."""

from __future__ import annotations

from pathlib import Path

from tests.parts import python_env
from tests.parts.python_env import RAY

find = RAY.find
build = RAY.build


def environment(home: Path) -> dict[str, str]:
    """Variables for a process that runs Ray: nothing is reported home."""
    return python_env.environment(home) | {"RAY_USAGE_STATS_ENABLED": "0"}

"""Which Kubernetes release the face speaks like, and as what it names itself."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from kai_ray.cluster.port import Object

MAJOR, MINOR = "1", "36"


def _own_version() -> str:
    try:
        return version("kai-ray")
    except PackageNotFoundError:
        return "0.0.0"


VERSION = f"v{MAJOR}.{MINOR}.0+kai-ray-{_own_version()}"


def info() -> Object:
    """The answer to /version."""
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": sys.implementation.name,
        "platform": f"{sys.platform}/{platform.machine()}",
    }

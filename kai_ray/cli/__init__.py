"""The command line: `kai` and, as a kubectl plug-in, `kubectl kai`."""

from __future__ import annotations

from kai_ray.cli.root import main

__all__ = ["main"]

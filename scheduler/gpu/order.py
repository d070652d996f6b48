"""Which device of a node a shared request takes first.

Source: KAI 0.17, gpupack and gpuspread. Higher goes first, the lower slot of equals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

#: (part of the device in use 0..1, nobody is on it yet) -> how gladly.
DeviceOrder: TypeAlias = "Callable[[float, bool], float]"


def packed(used: float, new: bool) -> float:
    """The fullest device that fits, a new one last."""
    return 0.0 if new else used


def spread_out(used: float, new: bool) -> float:
    """A new device first, then the emptiest."""
    return 1.0 if new else 1.0 - used


def as_they_come(used: float, new: bool) -> float:
    """No preference."""
    return 0.0

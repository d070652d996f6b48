"""Time as a thing that is passed in, so that a simulation can own it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""
        ...


class SystemClock:
    def now(self) -> float:
        return time.time()


class VirtualClock:
    """Stands still until it is told to move."""

    def __init__(self, start_s: float = 1_767_225_600.0) -> None:
        self._now = start_s

    def now(self) -> float:
        return self._now

    def advance_to(self, when_s: float) -> None:
        self._now = max(self._now, when_s)


def rfc3339(epoch_s: float, *, micro: bool = False) -> str:
    """The timestamp form of the Kubernetes API (`micro` for MicroTime fields)."""
    t = datetime.fromtimestamp(epoch_s, UTC)
    return t.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


def epoch(text: str) -> float:
    """Inverse of `rfc3339`; accepts fractions and offsets."""
    return datetime.fromisoformat(text).timestamp()

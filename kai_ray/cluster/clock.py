"""Time as a thing that is passed in, so that a simulation can own it."""

from __future__ import annotations

import threading
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


class SteadyClock:
    """The time of day that never jumps: what an operator does to the machine's clock evicts nobody.

    It runs with the machine, also while that sleeps, and follows a clock that was set by no more
    than `_SLEW` of the time that passes.
    """

    _SLEW = 0.05

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steady = steady_s()
        self._now = time.time()

    def now(self) -> float:
        with self._lock:
            steady = steady_s()
            passed = steady - self._steady
            ahead = time.time() - (self._now + passed)
            most = passed * self._SLEW
            self._now += passed + min(max(ahead, -most), most)
            self._steady = steady
            return self._now


def steady_s() -> float:
    """Seconds that nobody sets, counted on while the machine sleeps where the system can."""
    return time.clock_gettime(_STEADY) if _STEADY is not None else time.monotonic()


_STEADY: int | None = getattr(time, "CLOCK_BOOTTIME", None)


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

"""How time passes between two looks: on the machine's clock, or on an embedded cluster's own."""

from __future__ import annotations

import time
from typing import Any, Protocol

from kai_ray.cluster.clock import Clock, SystemClock


class Pace(Protocol):
    """Seconds of one clock, and how to let some of them pass."""

    #: For so long what was read counts as fresh.
    fresh_s: float
    #: The cluster's own time, for what it has written down.
    clock: Clock

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...

    async def sleep_async(self, seconds: float) -> None: ...


class RealPace:
    """The machine's clock."""

    fresh_s = 0.2

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def sleep_async(self, seconds: float) -> None:
        import asyncio  # only where it is used already

        await asyncio.sleep(seconds)


class EmbeddedPace:
    """The clock of an embedded cluster in virtual time: to sleep is to run it."""

    fresh_s = 0.0

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.clock: Clock = cluster.clock

    def now(self) -> float:
        return self.clock.now()

    def sleep(self, seconds: float) -> None:
        self._cluster.run_for(seconds)

    async def sleep_async(self, seconds: float) -> None:
        import asyncio

        self.sleep(seconds)  # one loop runs it all: there is nothing to wait for elsewhere
        await asyncio.sleep(0)

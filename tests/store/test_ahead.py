"""Writes that no decision waits for: they run beside the loop, their answers inside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kai_ray.cluster.ahead import Ahead
from kai_ray.cluster.clock import SystemClock
from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.port import ApiError, Conflict, Write
from kai_ray.cluster.runtime import Runtime

PATIENCE_S = 10.0


@pytest.fixture
def ahead() -> Iterator[Ahead]:
    found = Ahead(2, lambda: None)
    yield found
    found.close()


def refused() -> None:
    raise Conflict("somebody was faster")


def broken() -> None:
    raise ValueError("a bug")


def take(ahead: Ahead, sendings: int = 1) -> None:
    end = time.monotonic() + PATIENCE_S
    while sendings and time.monotonic() < end:
        sendings -= ahead.take()
        time.sleep(0.005)
    assert not sendings


def test_answers_come_in_the_order_of_the_writes_whatever_they_are(ahead: Ahead) -> None:
    told: list[Any] = []
    slow = Write(lambda: time.sleep(0.05) or "slow")
    ahead.send([slow, Write(refused), Write(broken), Write(lambda: "quick")], told.extend)
    take(ahead)
    first, conflict, failure, last = told
    assert (first, last) == ("slow", "quick")
    assert isinstance(conflict, Conflict)
    assert isinstance(failure, ApiError)
    assert "a bug" in str(failure)


def test_no_more_writes_are_under_way_than_were_allowed(ahead: Ahead) -> None:
    now, most, counting = 0, 0, threading.Lock()

    def write() -> None:
        nonlocal now, most
        with counting:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with counting:
            now -= 1

    ahead.send([Write(write)] * 8, lambda answers: None)
    take(ahead)
    assert most == 2


def test_after_the_end_nobody_is_told() -> None:
    ahead = Ahead(1, lambda: None)
    told: list[Any] = []
    begun = threading.Event()
    ahead.send([Write(lambda: begun.set() or time.sleep(0.05)), Write(lambda: None)], told.append)
    assert begun.wait(PATIENCE_S)
    ahead.close()
    time.sleep(0.1)
    assert ahead.take() == 0
    assert not told


def test_the_loop_goes_on_while_a_write_hangs() -> None:
    """A slow server keeps statuses waiting, and nothing else."""
    store, free = MemoryStore(), threading.Event()
    runtime = Runtime(store, SystemClock(), writers=(1, 1))
    seen: list[str] = []

    class Controller:
        name = "story"

        def setup(self, runtime: Runtime) -> None:
            runtime.enqueue(self.name, "status")

        def reconcile(self, key: str) -> None:
            seen.append(key)
            if key == "status":
                runtime.post([Write(free.wait, (PATIENCE_S,))], lambda _: seen.append("written"))
                runtime.post([Write(str)], lambda _: seen.append("bound"), urgent=True)
                runtime.enqueue(self.name, "decision")

    runtime.add(Controller())
    assert runtime.run_until(lambda: {"decision", "bound"} <= set(seen), PATIENCE_S)
    assert "written" not in seen
    free.set()
    assert runtime.run_until(lambda: "written" in seen, PATIENCE_S)
    runtime.close()


def test_without_writers_the_loop_waits_for_the_answers() -> None:
    runtime = Runtime(MemoryStore(), SystemClock())
    told: list[Any] = []
    runtime.post([Write(lambda: 1), Write(lambda: 2)], told.append)
    assert told == [[1, 2]]

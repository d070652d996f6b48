"""Live news: what has changed, what was decided, what happens to whose jobs."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kai_ray.console import live

from .conftest import Client, World


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.02)


class Stream:
    """Reads events as a browser does."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.response = response

    def next(self) -> tuple[str, Any]:
        name, data = "", ""
        while True:
            line = self.response.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                data = line.removeprefix("data: ")
            elif line.startswith(":"):
                return "comment", line
            elif not line and name:
                return name, json.loads(data)

    def until(self, wanted: Callable[[str, Any], bool]) -> list[tuple[str, Any]]:
        end, found = time.monotonic() + 10, []
        while time.monotonic() < end:
            found.append(self.next())
            if wanted(*found[-1]):
                return found
        raise AssertionError(found)


@contextmanager
def listening(world: Client, query: str = "") -> Iterator[Stream]:
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=10)
    headers = {"Authorization": f"Bearer {world.token}"}
    connection.request("GET", f"/api/v1/live{query}", headers=headers)
    response = connection.getresponse()
    assert response.getheader("content-type", "").startswith("text/event-stream")
    try:
        yield Stream(response)
    finally:
        connection.close()


def test_a_job_that_starts_is_told_at_once(world: World) -> None:
    with listening(world) as stream:
        assert stream.next()[0] == "hello"
        world.run(1)
        world.job("depth", "vision")
        world.run(10)
        news = stream.until(lambda name, data: name == "job" and data["what"] == "started")
    told = [data for name, data in news if name == "job"]
    assert {(job["kind"], job["name"], job["queue"]) for job in told} == {
        ("Job", "depth", "vision")
    }
    assert "created" in [job["what"] for job in told]
    topics = {topic for name, data in news if name == "changed" for topic in data["topics"]}
    assert {"overview", "jobs"} <= topics


def test_a_quiet_cluster_is_heard_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PING_S", 0.1)
    with listening(world) as stream:
        stream.until(lambda name, data: name == "comment")


def test_who_reads_too_slowly_loses_events_and_not_the_loop(world: World) -> None:
    from collections import deque

    view = world.console.clusters.home.view()
    slow: deque[Any] = deque(maxlen=3)
    view.lately.listen(slow)
    for number in range(4):
        world.job(f"j-{number}", "vision", gpus=0, runs_s=1)
    world.run(30)
    assert len(slow) == 3
    view.lately.leave(slow)
    assert slow not in view.lately._listeners


def test_listeners_beyond_the_number_are_sent_to_poll(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST", 1)
    with listening(world) as stream:
        assert stream.next()[0] == "hello"
        assert world.send("GET", "/api/v1/live").status == 429
    end = time.monotonic() + 5
    while world.console.live._count and time.monotonic() < end:
        time.sleep(0.05)
    with listening(world) as stream:
        assert stream.next()[0] == "hello", "the first one has gone"


def test_events_of_hidden_jobs_are_not_told() -> None:
    from kai_ray.console.live import Listener
    from kai_ray.history.job_event import JobEvent

    class Fixed:
        name = "x"

    made = Listener(Fixed(), frozenset({"team-a"}))  # type: ignore[arg-type]
    for namespace in ("team-a", "team-b"):
        made._jobs.append(
            JobEvent(
                1.8e9,
                "started",
                "uid",
                namespace,
                f"job-of-{namespace}",
                "Job",
                "batch/v1",
                "pg",
                "vision",
                "ada",
                "",
                1.0,
                1.0,
                1,
            )
        )
    text = b"".join(made._lives())
    assert b"job-of-team-a" in text and b"job-of-team-b" not in text

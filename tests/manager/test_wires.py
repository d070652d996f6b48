"""Bad wires between the process and the API server: it goes on, or waits and says so.

The server is our own, over HTTP; the wire breaks, freezes or slows down, the server forgets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kai_ray.api.crd import workload_crds
from kai_ray.cluster import kube_watch
from kai_ray.cluster import resources as r
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import ApiError, Object, TooManyRequests
from kai_ray.cluster.rest import RestServer
from kai_ray.controllers import ControlConfig
from kai_ray.manager import Manager, ManagerConfig
from tests.control import objects
from tests.manager.proxy import Proxy

MAX_AGE_S = 2.0
CONFIG = ManagerConfig(control=ControlConfig(period_s=0.05), max_age_s=MAX_AGE_S)


@dataclass
class Rig:
    """A store, its server, a wire, and the process at the other end."""

    store: MemoryStore
    server: RestServer
    wire: Proxy
    manager: Manager

    def pod(self, name: str) -> None:
        """A gang of one."""
        self.store.create(r.POD_GROUP, objects.podgroup(name, "default-queue", 1))
        self.store.create(r.POD, objects.pod(name, name))

    def node_of(self, name: str) -> str:
        return self.store.get(r.POD, name, "default")["spec"].get("nodeName") or ""

    def binds(self, name: str, seconds: float = 15.0) -> None:
        until(lambda: self.node_of(name), seconds)


def until(done: Callable[[], Any], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.02)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(kube_watch, "SHORTEST_STREAM_S", 1)
    store = MemoryStore()
    install_defaults(store)
    store.create(r.NODE, objects.node("node-0"))
    with RestServer(store) as server:
        connection = server.connection()
        wire = Proxy(int(connection.server.rpartition(":")[2]))
        through = replace(connection, server=f"https://127.0.0.1:{wire.port}")
        port = KubePort(through, silence_s=MAX_AGE_S, timeout_s=3.0, lean=True)
        with Manager(port, config=CONFIG) as manager:
            until(lambda: not manager.unready())
            yield Rig(store, server, wire, manager)
        wire.close()
        port.close()
    store.close()


def test_a_wire_that_breaks_is_mended(rig: Rig) -> None:
    for i in range(3):
        rig.wire.cut()
        rig.pod(f"p{i}")
        rig.binds(f"p{i}")


@pytest.mark.slow
def test_a_quiet_cluster_is_no_broken_wire(rig: Rig) -> None:
    """Nothing happens for longer than news may be old: streams are opened anew all the same."""
    end = time.monotonic() + 2.5 * MAX_AGE_S
    while time.monotonic() < end:
        assert rig.manager.runtime.old_news() == ""
        time.sleep(0.05)
    assert rig.manager.runtime.errors == 0


@pytest.mark.slow
def test_nothing_is_decided_on_old_news_and_that_is_said(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.wire.frozen = True
    with caplog.at_level(logging.WARNING):
        until(lambda: "no decisions" in rig.manager.runtime.waiting)
    cycles = rig.manager.control.loop.cycles
    assert rig.manager.unready()
    assert rig.manager.problem() == ""  # a restart would not help
    rig.pod("p")
    time.sleep(0.5)
    assert rig.node_of("p") == ""
    assert rig.manager.control.loop.cycles == cycles
    assert sum("no decisions" in message for message in caplog.messages) == 1
    rig.wire.frozen = False
    rig.binds("p")
    until(lambda: not rig.manager.unready())


def test_a_server_that_is_away_is_waited_for(rig: Rig) -> None:
    rig.wire.refusing = True
    rig.wire.cut()
    until(lambda: rig.manager.unready())
    rig.pod("p")
    time.sleep(1.0)
    asked = rig.wire.connections
    time.sleep(1.0)
    assert rig.wire.connections - asked < 400  # some thirty kinds, with growing pauses
    rig.wire.refusing = False
    rig.binds("p")


def test_what_a_server_has_forgotten_is_listed_again(rig: Rig) -> None:
    rig.wire.refusing = True
    rig.wire.cut()
    rig.pod("p")
    rig.store.delete(r.NODE, "node-0")
    rig.store.create(r.NODE, objects.node("node-1"))
    rig.store.compact()
    rig.wire.refusing = False
    rig.binds("p")
    assert rig.node_of("p") == "node-1"


def test_a_slow_wire_only_takes_longer(rig: Rig) -> None:
    rig.wire.slow_s = 0.2
    rig.pod("p")
    rig.binds("p", 30)


def test_a_busy_server_is_obeyed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three writes are refused with 429: all happens in the end, and nothing twice."""
    turns, bind = iter(range(10**6)), MemoryStore.bind

    def busy(store: MemoryStore, *args: Any, **kwargs: Any) -> None:
        if next(turns) % 3:
            error = TooManyRequests("busy", details={"retryAfterSeconds": 0})
            error.retry_after_s = 0.0
            raise error
        bind(store, *args, **kwargs)

    monkeypatch.setattr(MemoryStore, "bind", busy)
    for i in range(4):
        rig.pod(f"p{i}")
    for i in range(4):
        rig.binds(f"p{i}")


def test_an_event_that_a_watch_has_swallowed_is_found_by_the_next_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    install_defaults(store)
    swallowed: list[Object] = []

    def swallow(event: Any) -> bool:
        lost = event.type == "ADDED" and event.object["metadata"]["name"] == "node-0"
        if lost:
            swallowed.append(event.object)
        return lost

    port: Any = Swallowing(store, swallow)
    config = replace(CONFIG, resync_s=1.0, max_age_s=float("inf"))
    with Manager(port, config=config) as manager:
        until(lambda: not manager.unready())
        store.create(r.NODE, objects.node("node-0"))
        store.create(r.POD_GROUP, objects.podgroup("p", "default-queue", 1))
        store.create(r.POD, objects.pod("p", "p"))
        until(lambda: store.get(r.POD, "p", "default")["spec"].get("nodeName"))
    assert swallowed
    store.close()


class Swallowing:
    """A store some of whose events never arrive."""

    def __init__(self, store: MemoryStore, swallow: Callable[[Any], bool]) -> None:
        self._store, self._swallow = store, swallow

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def watch(self, *args: Any, **kwargs: Any) -> Any:
        watch, swallow = self._store.watch(*args, **kwargs), self._swallow

        class Lossy:
            def next(self, timeout_s: float = 0.0) -> Any:
                event = watch.next(timeout_s)
                while event is not None and swallow(event):
                    event = watch.next(timeout_s)
                return event

            silent_s, close = watch.silent_s, watch.close

        return Lossy()


def test_a_kind_that_comes_to_be_served_is_watched_then(rig: Rig) -> None:
    """KubeRay may be installed while we run."""
    absent = [i.resource.kind for i in rig.manager.runtime.absent()]
    assert "VirtualMachineInstance" not in absent  # nobody asks for what is not defined
    rig.store.delete(r.CRD, "rayjobs.ray.io")
    until(lambda: "RayJob" in [i.resource.kind for i in rig.manager.runtime.absent()])
    assert rig.manager.unready() == ""
    (definition,) = [d for d in workload_crds() if d["metadata"]["name"] == "rayjobs.ray.io"]
    rig.store.create(r.CRD, definition)
    until(lambda: "RayJob" not in [i.resource.kind for i in rig.manager.runtime.absent()])


def test_a_port_that_fails_at_the_start_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    install_defaults(store)
    failing = True

    class Port:
        def __getattr__(self, name: str) -> Any:
            if failing:
                raise_error()
            return getattr(store, name)

    def raise_error() -> None:
        raise ApiError("not yet")

    with Manager(Port(), config=replace(CONFIG, max_age_s=float("inf"))) as manager:  # type: ignore[arg-type]
        time.sleep(0.3)
        failing = False
        until(lambda: not manager.unready())
    store.close()

"""Two processes of ours on one store and one virtual clock, one of which can be stopped anywhere.

A process runs in a thread, but never beside another: every turn is waited for. A turn ends when
nothing is due, or when the process is stopped inside a write; then its thread sleeps there until it
is woken, as a process does that the kernel has stopped.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.leases import Election, LeaseConfig
from kai_ray.cluster.port import ApiError, Forbidden, NotFound, Port, Write
from kai_ray.controllers import ControlConfig
from kai_ray.manager.config import ManagerConfig
from kai_ray.manager.manager import Life

SPACE = "kube-system"
CONFIG = ManagerConfig(control=ControlConfig(period_s=0.1), max_age_s=float("inf"), writers=(0, 0))
_WRITES = ("create", "update", "patch", "delete", "bind", "evict")


class Server:
    """The store, with the policy of `kai_ray/manager/fence.py` if `fences`."""

    def __init__(self, store: Port, *, fences: bool = True) -> None:
        self._store = store
        self.fences = fences
        self.refused: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def bind(self, namespace: str, pod: str, node: str, **options: Any) -> None:
        term = (options.get("annotations") or {}).get(names.TERM)
        if self.fences and term is not None and term != self._term():
            self.refused.append(pod)
            raise Forbidden(f"decided in the term {term}, which is over: another process leads")
        self._store.bind(namespace, pod, node, **options)

    def _term(self) -> str:
        try:
            lease = self._store.get(r.LEASE, "kai-ray", SPACE)
        except NotFound:
            return ""
        return f"{SPACE}/kai-ray/{lease['spec']['leaseTransitions']}"


class Wire:
    """A process's way to the server. The write numbered `stop_at` is held until `woken`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.writes: list[str] = []
        self.stop_at = -1
        self.held = threading.Event()
        self.woken = threading.Event()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._server, name)
        if name not in _WRITES:
            return call

        def write(*args: Any, **kwargs: Any) -> Any:
            mine = len(self.writes)
            self.writes.append(f"{name} {getattr(args[0], 'plural', 'pods')}")
            if mine == self.stop_at:
                self.held.set()
                assert self.woken.wait(60)
            return call(*args, **kwargs)

        return write

    def batch(self, writes: Sequence[Write]) -> list[Any]:
        results: list[Any] = []
        for write in writes:
            try:
                results.append(write.call(*write.args, **(write.kwargs or {})))
            except ApiError as error:
                results.append(error)
        return results


class Process:
    """Candidate, controllers, and the wire between them and the server."""

    def __init__(self, name: str, server: Server, clock: VirtualClock) -> None:
        self.name = name
        self.wire = Wire(server)
        self._clock = clock
        self.election = Election(
            server,  # type: ignore[arg-type]
            LeaseConfig(name, namespace=SPACE),
            clock,
            steady=clock.now,
            rng=random.Random(name),
        )
        self._next_s = clock.now()
        self._term: int | None = None
        self._thread: threading.Thread | None = None
        self._boot()

    def _boot(self) -> None:
        self.life = Life(self.wire, self._clock, CONFIG, self.election)  # type: ignore[arg-type]
        self.life.begin()

    @property
    def stopped(self) -> bool:
        return self.wire.held.is_set() and not self.wire.woken.is_set()

    def turn(self) -> None:
        """Does all that is due now, unless it is stopped."""
        if self.stopped:
            return
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        while thread.is_alive() and not self.stopped:
            thread.join(0.01)
        self._thread = thread

    def wake(self) -> None:
        """Goes on where it was stopped, to the end of that turn."""
        self.wire.woken.set()
        assert self._thread is not None
        self._thread.join(60)

    def _work(self) -> None:
        if self._clock.now() >= self._next_s:
            self._next_s = self._clock.now() + self.election.step()
            term = self.election.term if self.election.holds() else None
            if self._term is not None and term != self._term:
                self.life.end()
                self._boot()
            self._term = term
        self.life.runtime.run_once()


def run(
    clock: VirtualClock, processes: Sequence[Process], seconds: float, look: Callable[[], None]
) -> None:
    """Turn by turn, a fifth of a second each; `look` is called after every one."""
    end = clock.now() + seconds
    while clock.now() < end:
        for process in processes:
            process.turn()
            look()
        clock.advance_to(clock.now() + 0.2)

"""Runs the controllers against a Kubernetes API server, in a thread of its own, until stopped."""

from __future__ import annotations

import logging
import threading

from kai_ray.cluster.clock import Clock, SystemClock
from kai_ray.cluster.port import Port
from kai_ray.cluster.runtime import Runtime
from kai_ray.manager.composition import Composition
from kai_ray.manager.config import ManagerConfig

log = logging.getLogger(__name__)


class Manager:
    """`start`, then `stop`; or `with Manager(port) as manager`. The port stays the caller's."""

    def __init__(
        self, port: Port, clock: Clock | None = None, config: ManagerConfig | None = None
    ) -> None:
        self.port = port
        self.clock = clock or SystemClock()
        self.config = config or ManagerConfig()
        self.composition = Composition(self.config)
        self.runtime = Runtime(port, self.clock)
        self._thread: threading.Thread | None = None

    @property
    def control(self):
        """The parts that decide, for who wants to look into them."""
        return self.composition.control

    def start(self) -> None:
        if self._thread is not None:
            return
        for controller in self.composition.controllers():
            self.runtime.add(controller)
        self._thread = threading.Thread(target=self.runtime.run_forever, name="kai", daemon=True)
        self._thread.start()

    def problem(self) -> str:
        """ "" while the loop runs; else what is wrong."""
        if self._thread is None:
            return "not started"
        return "" if self._thread.is_alive() else "the loop has ended"

    def unready(self) -> str:
        """ "" while the loop runs and every cache is kept up to date; else what is missing."""
        if self.problem():
            return self.problem()
        waiting = self.runtime.disconnected()
        return f"waiting for {', '.join(waiting)}" if waiting else ""

    def stop(self) -> None:
        """Ends the loop after the work in hand. May be called twice."""
        self.runtime.stop()
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None
        self.runtime.close()
        self.composition.close()

    def __enter__(self) -> Manager:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

"""Runs the controllers against a Kubernetes API server, until stopped.

With a lease, processes stand by with filled caches and one of them acts. A leader that loses the
lease throws away all it knows but the API server does not, and stands by again.
"""

from __future__ import annotations

import logging
import threading

from kai_ray.cluster.clock import Clock, SteadyClock, steady_s
from kai_ray.cluster.fenced import fenced
from kai_ray.cluster.leases import Election
from kai_ray.cluster.port import Port
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers import Control
from kai_ray.manager.composition import Composition
from kai_ray.manager.config import ManagerConfig

log = logging.getLogger(__name__)

#: A loop that has not come round for so long is taken to hang.
HANGS_S = 600.0


class Manager:
    """`start`, then `stop`; or `with Manager(port)`. The ports stay the caller's.

    `election` speaks to the API server by a port of its own, which must not wait behind the loop's
    requests. Without one this process acts alone.
    """

    def __init__(
        self,
        port: Port,
        clock: Clock | None = None,
        config: ManagerConfig | None = None,
        election: Election | None = None,
    ) -> None:
        self.port = port
        self.clock = clock or SteadyClock()
        self.config = config or ManagerConfig()
        self.election = election
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._life = self._new_life()

    @property
    def composition(self) -> Composition:
        """The parts of the present life, for who wants to look into them."""
        return self._life.composition

    @property
    def control(self) -> Control:
        return self._life.composition.control

    @property
    def runtime(self) -> Runtime:
        return self._life.runtime

    def start(self) -> None:
        if self._threads:
            return
        work = [self._run] if self.election is None else [self._run, self._elect]
        self._threads = [threading.Thread(target=f, name=f"kai{f.__name__}") for f in work]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def problem(self) -> str:
        """ "" while the process lives; else what is wrong."""
        if not self._threads:
            return "not started"
        if not all(thread.is_alive() for thread in self._threads):
            return "the loop has ended"
        idle_s = steady_s() - self._life.runtime.round_s
        return f"the loop has not come round for {idle_s:.0f} s" if idle_s > HANGS_S else ""

    def unready(self) -> str:
        """ "" while every cache is kept up to date, also in a standby; else what is missing."""
        if self.problem():
            return self.problem()
        waiting = self._life.runtime.disconnected()
        return "\n".join(waiting) or self._life.runtime.old_news()

    def stop(self) -> None:
        """Ends the loop after the work in hand, then gives the lease back. May be called twice."""
        self._stopping.set()
        self._life.runtime.stop()
        for thread in self._threads:
            thread.join(timeout=30)
        self._life.end()
        if self.election is not None:
            self.election.release()

    def __enter__(self) -> Manager:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _new_life(self) -> Life:
        return Life(self.port, self.clock, self.config, self.election)

    def _run(self) -> None:
        while not self._stopping.is_set():  # `stop` sets this first and then ends what it finds
            self._life.begin()
            self._life.runtime.run_forever()
            if not self._stopping.is_set():
                self._life.end()
                self._life = self._new_life()

    def _elect(self) -> None:
        assert self.election is not None
        term = None
        while not self._stopping.is_set():
            wait_s = self.election.step()
            now = self.election.term if self.election.holds() else None
            if term is not None and now != term:
                self._life.runtime.stop()
            elif now != term:
                self._life.runtime.wake()
            term = now
            self._stopping.wait(wait_s)


class Life:
    """From an empty memory to the loss of the lease."""

    def __init__(
        self, port: Port, clock: Clock, config: ManagerConfig, election: Election | None
    ) -> None:
        self.composition = Composition(config)
        self._election = election
        self._term = -1
        if election is not None:
            port = fenced(port, self._leads, self._term_text)
        self.runtime = Runtime(
            port,
            clock,
            max_age_s=config.max_age_s,
            resync_s=config.resync_s,
            may_act=self._leads if election is not None else lambda: True,
            writers=config.writers,
        )

    def begin(self) -> None:
        for controller in self.composition.controllers():
            self.runtime.add(controller)

    def end(self) -> None:
        self.runtime.close()
        self.composition.close()

    def _leads(self) -> bool:
        """For one term only: what was decided in another is not carried into this one."""
        election = self._election
        if election is None or not election.leads():
            return False
        if self._term < 0:
            self._term = election.term
        return self._term == election.term

    def _term_text(self) -> str:
        assert self._election is not None
        config = self._election.config
        return f"{config.namespace}/{config.name}/{self._term}"

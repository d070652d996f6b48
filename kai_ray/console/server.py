"""The console as a server: a thread with its own event loop."""

from __future__ import annotations

from kai_ray.cluster.serving import Limits, Serving
from kai_ray.console.app import Console

LIMITS = Limits(connections=512, keep_alive_s=30)


class ConsoleServer:
    """Serves a console on `host:port` (port 0: any free one) from `start` until `stop`."""

    def __init__(self, console: Console, host: str = "127.0.0.1", port: int = 0) -> None:
        self.console = console
        self._serving = Serving(console, host, port, name="kai-console", limits=LIMITS)

    @property
    def port(self) -> int:
        return self._serving.port

    @property
    def url(self) -> str:
        return f"http://{self._serving.address}/"

    def start(self) -> ConsoleServer:
        """Returns when requests are answered. Raises OSError if the port is taken."""
        self.console.open()
        self._serving.start()
        return self

    def problem(self) -> str:
        """ "" while it serves; else what is wrong."""
        return "" if self._serving.alive() else "the console has ended"

    def unready(self) -> str:
        """The same: how the clusters are is told on its pages."""
        return self.problem()

    def stop(self) -> None:
        """Ends live streams, answers what is under way, closes. May be called twice."""
        self.console.close()
        self._serving.stop()

    def __enter__(self) -> ConsoleServer:
        return self if self._serving.alive() else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

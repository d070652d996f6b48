"""The console as a server: a thread with its own event loop."""

from __future__ import annotations

import socket
import threading
import time

import uvicorn

from kai_ray.console.app import Console

CONNECTIONS = 512
START_S = 30.0
STOP_S = 3


class ConsoleServer:
    """Serves a console on `host:port` (port 0: any free one) from `start` until `stop`."""

    def __init__(self, console: Console, host: str = "127.0.0.1", port: int = 0) -> None:
        self.console = console
        self._host, self._port = host, port
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/"

    def start(self) -> ConsoleServer:
        """Returns when requests are answered. Raises OSError if the port is taken."""
        self.console.open()
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        # The protocol is named because asyncio turns Nagle's delay off only where it is.
        listener = self._socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._host, self._port))
            listener.listen(128)
        except OSError:
            listener.close()
            raise
        self._port = listener.getsockname()[1]
        config = uvicorn.Config(
            self.console,
            lifespan="off",
            interface="asgi3",
            http="h11",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=CONNECTIONS,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=STOP_S,
        )
        server = self._server = _Server(config)
        self._thread = threading.Thread(
            target=server.run, args=([listener],), name="kai-console", daemon=True
        )
        self._thread.start()
        end = time.monotonic() + START_S
        while not server.ready.wait(0.1):
            if not self._thread.is_alive() or time.monotonic() > end:
                self.stop()
                raise RuntimeError("the console did not start: see the log")
        return self

    def problem(self) -> str:
        """ "" while it serves; else what is wrong."""
        alive = self._thread is not None and self._thread.is_alive()
        return "" if alive else "the console has ended"

    def unready(self) -> str:
        """The same: how the clusters are is told on its pages."""
        return self.problem()

    def stop(self) -> None:
        """Ends live streams, answers what is under way, closes. May be called twice."""
        self.console.close()
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(3 * STOP_S)
        if self._socket is not None:
            self._socket.close()
        self._server = self._thread = self._socket = None

    def __enter__(self) -> ConsoleServer:
        return self if self._thread is not None else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

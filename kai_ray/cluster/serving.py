"""An ASGI application on a thread of its own, with its own event loop, on one socket."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

START_S = 30.0
#: Requests under way may take so long to end.
STOP_S = 5
_FAREWELL_S = 0.05

#: What `scope, receive, send` are given to.
Application = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one server takes from its clients at a time."""

    connections: int = 1024
    header_bytes: int = 64 * 2**10
    keep_alive_s: int = 120


class Serving:
    """Serves on `host:port` (port 0: any free one) from `start` until `stop`.

    `tls`: a context, or the files of a certificate and its key; None serves plain HTTP.
    `before_stop` is called, on the server's own thread, before it waits for what is under way: to
    end answers that would go on for ever.
    """

    def __init__(
        self,
        app: Application,
        host: str,
        port: int,
        *,
        name: str,
        limits: Limits = Limits(),
        tls: ssl.SSLContext | tuple[Path, Path] | None = None,
        before_stop: Callable[[], None] | None = None,
    ) -> None:
        self._app, self._name, self._limits, self._tls = app, name, limits, tls
        self._host, self._port = host, port
        self._before_stop = before_stop
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The one that was asked for; from `start` on the one that is listened on."""
        return self._port

    @property
    def address(self) -> str:
        """host:port, as a URL has it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Returns when requests are answered. Raises OSError if the port is taken."""
        self._socket = _listen(self._host, self._port)
        self._port = self._socket.getsockname()[1]
        server = self._server = _Server(self._config(), self._before_stop)
        self._thread = threading.Thread(
            target=server.run, args=([self._socket],), name=self._name, daemon=True
        )
        self._thread.start()
        end = time.monotonic() + START_S
        while not server.ready.wait(0.1):
            if not self._thread.is_alive() or time.monotonic() > end:
                self.stop()
                raise RuntimeError(f"the server {self._name} did not start: see the log")

    def stop(self) -> None:
        """Answers what is under way, closes. Safe to call twice."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(2 * STOP_S)
        if self._socket is not None:
            self._socket.close()
        self._server = self._thread = self._socket = None

    def _config(self) -> uvicorn.Config:
        files = self._tls if isinstance(self._tls, tuple) else None
        config = uvicorn.Config(
            self._app,
            lifespan="off",
            interface="asgi3",
            http="h11",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=self._limits.connections,
            h11_max_incomplete_event_size=self._limits.header_bytes,
            timeout_keep_alive=self._limits.keep_alive_s,
            timeout_graceful_shutdown=STOP_S,
            ssl_certfile=str(files[0]) if files else None,
            ssl_keyfile=str(files[1]) if files else None,
        )
        if isinstance(self._tls, ssl.SSLContext):
            config.load()
            config.ssl = self._tls
        return config


class _Server(uvicorn.Server):
    """uvicorn on a thread of ours: says when it is ready, and waits for nobody who is idle."""

    def __init__(self, config: uvicorn.Config, before_stop: Callable[[], None] | None) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._before_stop = before_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._before_stop is not None:
            self._before_stop()
        if self.server_state.tasks:
            await asyncio.wait(list(self.server_state.tasks), timeout=STOP_S)
        # A client that keeps an idle connection does not answer TLS's farewell: do not wait for it.
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(_FAREWELL_S)
        for connection in list(self.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    # The protocol is named because asyncio turns Nagle's delay off only where it is; without that
    # each answer waits 40 ms for the client's delayed acknowledgement.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(512)
    except OSError:
        listener.close()
        raise
    return listener

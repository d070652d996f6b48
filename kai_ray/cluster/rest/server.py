"""The REST face as a server: a thread with its own event loop on loopback.

server = RestServer(store, tokens={"a-long-secret": "alice"}).start()
server.url, server.kubeconfig()
server.stop()
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvicorn

from kai_ray.cluster import kubeconfig
from kai_ray.cluster.kubeconfig import Connection
from kai_ray.cluster.memory import MemoryStore

from . import certificates
from .app import HEADER_LIMIT, Face
from .subresources import LogSource
from .users import TokenTable, User

ADMINISTRATOR = "kai-admin"
CONNECTIONS = 4096
START_S = 30.0
STOP_S = 5.0
FAREWELL_S = 0.05


class RestServer:
    """Serves a store as a Kubernetes API.

    `tokens`: bearer token -> user (a bare name stands for an administrator); without any, one
    random administrator's token is made. `folder` keeps certificates and that token, so that a
    kubeconfig outlives a restart; without it they last as long as the server. `port` 0 takes a
    free one. `tls=False` serves plain HTTP, over which kubectl sends no token. `logs` gives the
    text of a container's log.
    """

    def __init__(
        self,
        store: MemoryStore,
        host: str = "127.0.0.1",
        port: int = 0,
        tokens: Mapping[str, User | str] | None = None,
        *,
        tls: bool = True,
        folder: str | Path | None = None,
        logs: LogSource | None = None,
    ) -> None:
        self.store = store
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        if folder is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="kai-ray-")
            folder = self._scratch.name
        self._folder = Path(folder)
        self._tokens: dict[str, User | str] = dict(tokens or {})
        if not self._tokens:
            self._tokens[_kept_token(self._folder / "token")] = ADMINISTRATOR
        self._face = Face(store, TokenTable(self._tokens), logs)
        self._host, self._port = host, port
        self._files = certificates.ensure(self._folder, _names(host)) if tls else None
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> RestServer:
        """Returns when requests are answered. Raises OSError if the port is taken."""
        self._socket = _listen(self._host, self._port)
        # asyncio does this only for sockets that name their protocol; without it each answer
        # waits 40 ms for the client's delayed acknowledgement.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._port = self._socket.getsockname()[1]
        files = self._files
        config = uvicorn.Config(
            self._face,
            lifespan="off",
            interface="asgi3",
            http="h11",
            ws="none",
            log_config=None,
            access_log=False,
            limit_concurrency=CONNECTIONS,
            server_header=False,
            h11_max_incomplete_event_size=HEADER_LIMIT,
            timeout_keep_alive=120,
            timeout_graceful_shutdown=int(STOP_S),
            ssl_certfile=str(files.certificate) if files else None,
            ssl_keyfile=str(files.key) if files else None,
        )
        server = self._server = _Server(config, self._face)
        self._thread = threading.Thread(
            target=server.run, args=([self._socket],), name="kai-rest", daemon=True
        )
        self._thread.start()
        end = time.monotonic() + START_S
        while not server.ready.wait(0.1):
            if not self._thread.is_alive() or time.monotonic() > end:
                self.stop()
                raise RuntimeError("the REST server did not start: see the log")
        return self

    def stop(self) -> None:
        """Ends open watches, answers what is under way, closes. Safe to call twice."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(2 * STOP_S)
        if self._socket is not None:
            self._socket.close()
        if self._scratch is not None:
            self._scratch.cleanup()
        self._server = self._thread = self._socket = None

    def __enter__(self) -> RestServer:
        return self if self._thread is not None else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._files else 'http'}://{host}:{self._port}"

    @property
    def token(self) -> str:
        """The first token of the table."""
        return next(iter(self._tokens))

    def connection(self, token: str = "") -> Connection:
        """For `KubePort`."""
        return Connection(server=self.url, token=token or self.token, ca_pem=self._ca)

    def kubeconfig(self, name: str = "kai", token: str = "") -> dict[str, Any]:
        """A kubeconfig of one cluster, user and context of that name."""
        return kubeconfig.single(name, self.url, token=token or self.token, ca_pem=self._ca)

    def write_kubeconfig(self, path: str | Path, name: str = "kai") -> Path:
        """Adds the context to a kubeconfig file and makes it the current one."""
        return kubeconfig.write(self.kubeconfig(name), path)

    @property
    def _ca(self) -> bytes | None:
        return self._files.ca_pem if self._files else None


class _Server(uvicorn.Server):
    """uvicorn on a thread of ours: says when it is ready, ends watches before it waits for them."""

    def __init__(self, config: uvicorn.Config, face: Face) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._face = face

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._face.end_watches()
        if self.server_state.tasks:
            await asyncio.wait(list(self.server_state.tasks), timeout=STOP_S)
        # A client that keeps an idle connection does not answer TLS's farewell: do not wait for it.
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(FAREWELL_S)
        for connection in list(self.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    # The protocol is named because asyncio turns Nagle's delay off only where it is.
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


def _names(host: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((host, "127.0.0.1", "::1", "localhost", "kubernetes.default")))


def _kept_token(path: Path) -> str:
    if path.exists() and (kept := path.read_text().strip()):
        return kept
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
    token = "kai-" + secrets.token_urlsafe(32)
    path.write_text(token + "\n")
    return token

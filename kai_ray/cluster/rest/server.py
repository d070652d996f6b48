"""The REST face as a server: a thread with its own event loop on loopback.

server = RestServer(store, tokens={"a-long-secret": "alice"}).start()
server.url, server.kubeconfig()
server.stop()
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kai_ray.cluster import kubeconfig
from kai_ray.cluster.kubeconfig import Connection
from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.serving import Limits, Serving

from . import certificates
from .app import HEADER_LIMIT, Face
from .subresources import LogSource
from .users import TokenTable, User

ADMINISTRATOR = "kai-admin"
CONNECTIONS = 4096


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
        files = self._files = certificates.ensure(self._folder, _names(host)) if tls else None
        self._serving = Serving(
            self._face,
            host,
            port,
            name="kai-rest",
            limits=Limits(CONNECTIONS, HEADER_LIMIT),
            tls=(files.certificate, files.key) if files else None,
            before_stop=self._face.end_watches,
        )

    def start(self) -> RestServer:
        """Returns when requests are answered. Raises OSError if the port is taken."""
        self._serving.start()
        return self

    def stop(self) -> None:
        """Ends open watches, answers what is under way, closes. Safe to call twice."""
        self._serving.stop()
        if self._scratch is not None:
            self._scratch.cleanup()

    def __enter__(self) -> RestServer:
        return self if self._serving.alive() else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"{'https' if self._files else 'http'}://{self._serving.address}"

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

"""Who we are and whom we trust, as of now: files and plugins are read again while we run.

Tokens are rotated, client certificates renewed, authorities replaced, all without a restart: what a
connection was made from is read again every minute, and at once when the server refuses us (401) or
we do not trust its certificate. Streams that are open go on; new requests take the new credentials.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from typing import Any, NamedTuple

import urllib3

from .clock import steady_s
from .kube_exec import ExecCredential, ExecCredentials, cluster_info
from .kube_pool import make_pool
from .kubeconfig import Connection, KubeconfigError
from .port import Unauthorized

log = logging.getLogger(__name__)

FRESH_S = 60.0  # what files say is believed for so long
ASK_AGAIN_S = 1.0  # and no refusal makes us read them more often than this
#: Streams stay open for long, one a watch: they must not crowd the short requests out.
STREAMS = 256
USER_AGENT = "kai-ray"


class Way(NamedTuple):
    """How one request goes out. `number` tells two states of our credentials apart."""

    number: int
    server: str
    headers: urllib3.HTTPHeaderDict
    pool: urllib3.PoolManager
    streams: urllib3.PoolManager


class Access:
    """Safe from any thread."""

    def __init__(self, connection: Connection, connections: int) -> None:
        self._lock = threading.Lock()
        self._size = connections
        self._number = 0
        self._connection = connection
        self._asked_s = self._read_s = steady_s()
        self._plugin: Any = None
        self._exec: ExecCredentials | None = None
        self._given: ExecCredential | None = None
        self._token = ""
        self._use(connection)

    def way(self) -> Way:
        """For a request now. Raises Unauthorized if there are no credentials to be had."""
        with self._lock:
            if steady_s() - self._read_s > FRESH_S:
                self._read_again()
            if self._exec is not None:
                self._take(self._exec)
            return Way(
                self._number,
                self._connection.server,
                self._headers(),
                self._pool,
                self._streams,
            )

    def refused(self, way: Way) -> bool:
        """The server did not take us, or we not it: whether another try may go better."""
        with self._lock:
            if way.number != self._number:
                return True  # somebody has been here since
            if steady_s() - self._asked_s < ASK_AGAIN_S:
                return False
            self._asked_s = steady_s()
            if self._exec is not None and self._given is not None:
                self._exec.refused(self._given)
                self._take(self._exec)
            self._read_again()
            return way.number != self._number

    def close(self) -> None:
        with self._lock:
            self._pool.clear()
            self._streams.clear()

    def _use(self, connection: Connection) -> None:
        self._connection = connection
        self._number += 1
        self._token = connection.token or self._token_of_file()
        if connection.plugin is not None and self._plugin is None:
            from .kube_plugin import PluginCredentials

            self._plugin = PluginCredentials(connection.plugin)
        if connection.exec_user is not None:
            info = {"server": connection.server, "ca_pem": connection.ca_pem}
            self._exec = ExecCredentials(connection.exec_user, cluster_info(info))
            self._given = self._exec.get()
        self._make_pools()

    def _make_pools(self) -> None:
        connection, certificate = self._connection, None
        if connection.client_cert_pem and connection.client_key_pem:
            certificate = (connection.client_cert_pem, connection.client_key_pem)
        if self._plugin is not None:
            certificate = self._plugin.certificate or certificate
        if self._given is not None:
            certificate = self._given.certificate or certificate
        self._pool = make_pool(connection, certificate, self._size)
        self._streams = make_pool(connection, certificate, STREAMS)

    def _take(self, program: ExecCredentials) -> None:
        """What the program gives now; connections are made anew if its certificate has changed."""
        try:
            given = program.get()
        except KubeconfigError as error:
            raise Unauthorized(str(error)) from error
        if given is self._given:
            return
        before, self._given = self._given, given
        self._number += 1
        if before is None or before.certificate != given.certificate:
            self._make_pools()

    def _read_again(self) -> None:
        self._read_s = steady_s()
        connection = self._connection
        if connection.reload is not None:
            try:
                connection = connection.reload()
            except KubeconfigError as error:  # half-written, say: what we have may still serve
                log.warning("%s", error)
                return
        if connection is not self._connection and not _same(connection, self._connection):
            log.info("the credentials or the authority of %s have changed", connection.server)
            self._use(connection)
            return
        token = self._connection.token or self._token_of_file()
        if token != self._token:
            self._token = token
            self._number += 1

    def _token_of_file(self) -> str:
        path = self._connection.token_file
        if not path or self._connection.token:
            return ""
        try:
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
        except OSError as error:
            if self._token:
                log.warning("cannot read the token file: %s", error)
                return self._token
            raise Unauthorized(f"cannot read the token file: {error}") from error

    def _headers(self) -> urllib3.HTTPHeaderDict:
        connection = self._connection
        headers = urllib3.HTTPHeaderDict({"Accept": "application/json", "User-Agent": USER_AGENT})
        token = self._token or (self._given.token if self._given is not None else "")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif connection.username:
            credentials = f"{connection.username}:{connection.password}"
            headers.update(urllib3.make_headers(basic_auth=credentials))
        for name, value in connection.impersonate:
            headers.add(name, value)  # a user may have several groups
        if self._plugin is not None:
            headers.update(self._plugin.headers())
        return headers


def _same(a: Connection, b: Connection) -> bool:
    return dataclasses.replace(a, reload=None) == dataclasses.replace(b, reload=None)

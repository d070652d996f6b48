"""The ASGI application: who asks, what for, and an answer under strict rules for browsers.

No cookie is ever set or read: every request of the API carries its token in a header that pages of
other sites cannot send, and a write carries a second header that a proxy would not add by itself.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kai_ray.cluster.port import (
    ApiError,
    Forbidden,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from kai_ray.console.answers import TooLarge, WrongMethod, encoded, packs, read_body, refusal, sent
from kai_ray.console.api.session import session
from kai_ray.console.asking import Ask, Refused
from kai_ray.console.clusters import Clusters
from kai_ray.console.files import Files
from kai_ray.console.live import Live
from kai_ray.console.openapi import document
from kai_ray.console.operations import OPERATIONS, PREFIX, Operation
from kai_ray.console.viewers import Door, Viewer

log = logging.getLogger(__name__)

HEAD_LIMIT = 32 * 1024
WORKERS = 4
#: Requests of operations that may wait for a worker.
QUEUED = 64
#: How often, and how many times, a cluster is looked at that does not answer yet.
WARM_S, WARM_TRIES = 1.0, 300
GUARD = "x-kai-request"

SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; font-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
#: Names by which a browser on the same machine may call us.
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Console:
    """`clusters` are shown to whom `door` lets in. `hosts`: the only names to be called by."""

    def __init__(
        self, clusters: Clusters, door: Door, hosts: tuple[str, ...] | None = None
    ) -> None:
        self.clusters = clusters
        self.door = door
        self.live = Live(clusters)
        self._hosts = hosts
        self._files = Files()
        self._workers = ThreadPoolExecutor(WORKERS, "kai-console")
        self._waiting = 0
        self._closed = threading.Event()
        self._document: bytes | None = None

    def open(self) -> None:
        """Begins to look at what there is, before anybody asks."""
        for cluster in self.clusters:
            cluster.health()
        threading.Thread(target=self._warm, name="kai-console-warm", daemon=True).start()

    def _warm(self) -> None:
        """Makes all rows once, so that the first page does not wait for them."""
        waiting = list(self.clusters)
        for _ in range(WARM_TRIES):
            for cluster in [c for c in waiting if c.health()[0].ok]:
                waiting.remove(cluster)
                view = cluster.view()
                view.jobs.rows()
                view.nodes.rows()
            if not waiting or self._closed.wait(WARM_S):
                return

    def close(self) -> None:
        self._closed.set()
        self.live.close()
        self.door.close()
        self._workers.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"only HTTP is served, not {scope['type']}")
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ApiError as error:
            response = refusal(error)
        except ClientDisconnect:
            return
        except Exception:
            log.exception("%s %s failed", request.method, scope["path"])
            response = refusal(ApiError("an internal error: see the console's log"))
        for name, value in SECURITY.items():
            response.headers[name] = value
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        self._check_head(request)
        path: str = request.scope["path"]
        if path != "/api" and not path.startswith("/api/"):
            return self._page(request, path)
        raw: bytes = request.scope.get("raw_path") or path.encode()
        parts = [unquote(part) for part in raw.decode("latin-1").split("?")[0].split("/")[1:]]
        if parts[:2] != PREFIX.strip("/").split("/"):
            raise NotFound(f"the API begins with {PREFIX}")
        rest = parts[2:]
        if rest == ["openapi.json"]:
            return self._openapi(request)
        if rest == ["session"]:
            return await self._session(request)
        viewer = await self._worked(lambda: self._viewer(request))
        if rest == ["live"]:
            return await self._live(request, viewer)
        operation, names = _operation(request.method, rest)
        return await self._operate(request, operation, names, viewer)

    # ------------------------------------------------------------------ rules

    def _check_head(self, request: Request) -> None:
        # h11 looks at its own limit only while a head is incomplete: one that came whole passes.
        if sum(len(name) + len(value) for name, value in request.headers.raw) > HEAD_LIMIT:
            raise TooLarge(f"the headers are longer than {HEAD_LIMIT} bytes")
        host = request.headers.get("host") or ""
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if self._hosts is not None and name.lower() not in self._hosts:
            raise Forbidden("the console answers on this machine's own name only")

    def _viewer(self, request: Request) -> Viewer:
        scheme, _, token = (request.headers.get("authorization") or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized(self.door.sign_in)
        return self.door.enter(token.strip())

    def _guard(self, request: Request) -> None:
        """A write is one that a page of ours makes, and no other site's."""
        if request.headers.get(GUARD) != "1":
            raise Forbidden("a write needs the header X-Kai-Request: 1")
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Forbidden("a write comes from the console's own pages")
        kind = (request.headers.get("content-type") or "").split(";")[0].strip().lower()
        if kind != "application/json":
            raise Refused("the body has to be application/json", field="Content-Type", code=415)

    # ------------------------------------------------------------------ answers

    async def _operate(
        self, request: Request, operation: Operation, names: dict[str, str], viewer: Viewer
    ) -> Response:
        body = b""
        if operation.body is not None:
            self._guard(request)
            body = await read_body(request)
        ask = Ask(self.clusters, viewer, names, dict(request.query_params), body)
        if operation.writes and not ask.cluster.home:
            raise Forbidden(f"context {ask.cluster.name} is shown read-only")
        answer = await self._worked(lambda: encoded(operation.run(ask)))
        return sent(request, *answer)

    async def _session(self, request: Request) -> Response:
        def made() -> bytes:
            viewer = None
            if request.headers.get("authorization"):
                viewer = self._viewer(request)
            return msgspec.json.encode(session(self.clusters, self.door, viewer))

        return sent(request, await self._worked(made), "application/json")

    async def _live(self, request: Request, viewer: Viewer) -> Response:
        cluster = self.clusters.named(request.query_params.get("context") or "")
        ask = Ask(self.clusters, viewer, query={"context": cluster.name})

        def seen() -> frozenset[str] | None:
            return replace(ask, viewer=self._viewer(request)).sees(cluster.view())

        first = await self._worked(seen)
        return self.live.stream(cluster, first, seen)

    def _openapi(self, request: Request) -> Response:
        if self._document is None:
            self._document = msgspec.json.encode(document())
        return sent(request, self._document, "application/json")

    def _page(self, request: Request, path: str) -> Response:
        if request.method not in ("GET", "HEAD"):
            raise WrongMethod("pages are only read")
        file = self._files.find(path)
        if file is None:
            raise NotFound(f"there is no file {path[:200]}")
        headers = {"ETag": file.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == file.etag:
            return Response(b"", 304, headers)
        body = file.body
        if packs(request):
            body, headers["Content-Encoding"] = file.packed, "gzip"
        return Response(body, 200, headers, media_type=file.media_type)

    async def _worked(self, run: Callable[[], Any]) -> Any:
        """In a thread of the console's: API servers may be slow, and the loop must not wait."""
        if self._waiting >= QUEUED:
            raise TooManyRequests("the console is busy: try again in a moment")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._workers, run)
        finally:
            self._waiting -= 1


def _operation(method: str, parts: list[str]) -> tuple[Operation, dict[str, str]]:
    others: set[str] = set()
    for operation in OPERATIONS:
        names = operation.match(parts)
        if names is None:
            continue
        if operation.method == method or (method, operation.method) == ("HEAD", "GET"):
            return operation, names
        others.add(operation.method)
    if others:
        raise WrongMethod(f"use {' or '.join(sorted(others))} there")
    raise NotFound(f"there is nothing at {PREFIX}/{'/'.join(parts)[:200]}")

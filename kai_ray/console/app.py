"""The ASGI application: who asks, what for, and an answer under strict rules for browsers.

No cookie is ever set or read: every request of the API carries its token in a header that pages of
other sites cannot send, and a write carries a second header that a proxy would not add by itself.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kai_ray.cluster.port import (
    ApiError,
    BadRequest,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
)
from kai_ray.console import shapes
from kai_ray.console.api.session import session
from kai_ray.console.asking import Ask, Refused, Text, cause_of
from kai_ray.console.clusters import Clusters
from kai_ray.console.files import Files
from kai_ray.console.live import Live
from kai_ray.console.openapi import document
from kai_ray.console.operations import OPERATIONS, PREFIX, Operation
from kai_ray.console.viewers import Door, Viewer

log = logging.getLogger(__name__)

BODY_LIMIT = 64 * 1024
HEAD_LIMIT = 32 * 1024
BODY_S = 10.0
WORKERS = 4
#: Requests of operations that may wait for a worker.
QUEUED = 64
PACK_FROM = 1024
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


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class WrongMethod(ApiError):
    code, reason = 405, "MethodNotAllowed"


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
        self._document: bytes | None = None

    def open(self) -> None:
        """Begins to look at what there is, before anybody asks."""
        for cluster in self.clusters:
            cluster.health()

    def close(self) -> None:
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
        answer = await self._worked(lambda: _encoded(operation.run(ask)))
        return _sent(request, *answer)

    async def _session(self, request: Request) -> Response:
        def made() -> bytes:
            viewer = None
            if request.headers.get("authorization"):
                viewer = self._viewer(request)
            return msgspec.json.encode(session(self.clusters, self.door, viewer))

        return _sent(request, await self._worked(made), "application/json")

    async def _live(self, request: Request, viewer: Viewer) -> Response:
        cluster = self.clusters.named(request.query_params.get("context") or "")
        ask = Ask(self.clusters, viewer, query={"context": cluster.name})
        seen = await self._worked(lambda: ask.sees(cluster.view()))
        return self.live.stream(cluster, seen, lambda: self.door_open(request))

    def door_open(self, request: Request) -> bool:
        """Whether who listens may still listen."""
        try:
            self._viewer(request)
        except ApiError as error:
            return not isinstance(error, Unauthorized)
        return True

    def _openapi(self, request: Request) -> Response:
        if self._document is None:
            self._document = msgspec.json.encode(document())
        return _sent(request, self._document, "application/json")

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
        if _packs(request):
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


async def read_body(request: Request) -> bytes:
    """At most BODY_LIMIT bytes, within BODY_S. Raises TooLarge before all of it has come."""
    stated = request.headers.get("content-length") or ""
    if stated.isdecimal() and int(stated) > BODY_LIMIT:
        raise TooLarge(f"the body is longer than {BODY_LIMIT} bytes")
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                found += chunk
                if len(found) > BODY_LIMIT:
                    raise TooLarge(f"the body is longer than {BODY_LIMIT} bytes")
    except TimeoutError:
        raise BadRequest(f"the body did not come within {BODY_S:g} s") from None
    return bytes(found)


def refusal(error: ApiError) -> Response:
    field, message = getattr(error, "field", ""), error.message
    if isinstance(error, Invalid):
        field, message = cause_of(error)
    body = shapes.Refusal(
        shapes.Error(error.code, error.reason, message, field, getattr(error, "next", ""))
    )
    headers = {"Cache-Control": "no-store"}
    if error.code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    encoded = msgspec.json.encode(body)
    return Response(encoded, error.code, headers, media_type="application/json")


def _encoded(answer: Any) -> tuple[bytes, str, str]:
    if isinstance(answer, Text):
        return answer.body.encode(), answer.media_type, answer.name
    return msgspec.json.encode(answer), "application/json", ""


def _sent(request: Request, body: bytes, media_type: str, name: str = "") -> Response:
    """With a tag, so that who has it already is told so."""
    etag = f'"{hashlib.blake2b(_without_time(body), digest_size=12).hexdigest()}"'
    headers = {
        "ETag": etag,
        "Cache-Control": "no-cache, private",
        "Vary": "Accept-Encoding, Authorization",
    }
    if name:
        plain = "".join(c if c.isalnum() or c in "-._" else "-" for c in name if c.isascii())
        headers["Content-Disposition"] = f'attachment; filename="{plain}"'
    if request.method == "GET" and request.headers.get("if-none-match") == etag:
        return Response(b"", 304, headers)
    if len(body) >= PACK_FROM and _packs(request):
        body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
    return Response(body, 200, headers, media_type=media_type)


def _without_time(body: bytes) -> bytes:
    """The time of an answer is no news."""
    at = body.find(b'"at":"', 0, 200)
    return body if at < 0 else body[:at] + body[body.find(b'"', at + 6) :]


def _packs(request: Request) -> bool:
    return "gzip" in (request.headers.get("accept-encoding") or "")

"""HTTP to an API server: connections, credentials, refusals, patience.

`Transport.send` answers with the bytes of a success or raises the matching `ApiError`. Requests
that the server turned away unread (429, 503 with Retry-After) are repeated within a limit; a
request whose fate is unknown is repeated only if repeating it does no harm (GET).
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from .kube_access import Access, Way
from .kubeconfig import Connection
from .port import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0
ATTEMPTS = 4
LONGEST_WAIT_S = 10.0

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"(?: .*)?')
_BY_REASON: Mapping[str, type[ApiError]] = {
    kind.reason: kind
    for kind in (
        NotFound,
        AlreadyExists,
        Conflict,
        Invalid,
        BadRequest,
        Forbidden,
        Unauthorized,
        Gone,
        TooManyRequests,
        Unavailable,
    )
} | {"Gone": Gone, "Timeout": Unavailable, "ServerTimeout": Unavailable}
_BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: BadRequest,
    415: BadRequest,
    422: Invalid,
    429: TooManyRequests,
}


class Transport:
    """A pool of connections to one server, with one user's credentials. Safe from any thread."""

    def __init__(
        self,
        connection: Connection,
        connections: int = 16,
        *,
        timeout_s: float = READ_TIMEOUT_S,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._attempts = attempts
        self.on_warning: Callable[[str], None] | None = None
        """Told what the server says beside a success, such as admission's warnings."""
        self._timeout = urllib3.Timeout(connect=min(CONNECT_TIMEOUT_S, timeout_s), read=timeout_s)
        self._access = Access(connection, connections)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        patient: bool = True,
    ) -> bytes:
        """The body of a 2xx answer. `patient` False hands a 429 to the caller at once."""
        url = path + ("?" + urlencode(query) if query else "")
        more = {"Content-Type": content_type} if body is not None else {}
        attempt, renewed = 0, False
        while True:
            attempt += 1
            last = attempt >= self._attempts
            way = self._access.way()
            way.headers.update(more)
            try:
                response = way.pool.request(
                    method,
                    way.server + url,
                    body=body,
                    headers=way.headers,
                    timeout=self._timeout,
                    retries=False,
                )
            except HTTPError as error:
                if not renewed and _distrusts(error) and self._access.refused(way):
                    renewed, attempt = True, attempt - 1
                elif method == "GET" and not last:
                    time.sleep(0.05 * 2**attempt)
                else:
                    raise _unreachable(way, error) from error
                continue
            if response.status < 300:
                if self.on_warning is not None:
                    for text in warnings_of(response.headers):
                        self.on_warning(text)
                return response.data
            if response.status == 401 and not renewed and self._access.refused(way):
                renewed, attempt = True, attempt - 1
                continue
            refusal = error_of(response.status, response.data, response.headers)
            wait_s = _wait_s(response, refusal) if patient and not last else None
            if wait_s is None:
                raise refusal
            log.info("%s %s: %s; again in %.1f s", method, path, refusal, wait_s)
            time.sleep(wait_s)

    def stream(
        self, path: str, query: Mapping[str, str], read_timeout_s: float
    ) -> urllib3.BaseHTTPResponse:
        """An open answer whose body is read as it comes. Raises ApiError if refused."""
        for last in (False, True):
            way = self._access.way()
            try:
                response = way.streams.request(
                    "GET",
                    way.server + path,
                    fields=dict(query),
                    headers=way.headers,
                    timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=read_timeout_s),
                    preload_content=False,
                    retries=False,
                )
                if response.status < 300:
                    return response
                data = response.read()
                response.release_conn()
            except HTTPError as error:
                if not last and _distrusts(error) and self._access.refused(way):
                    continue
                raise _unreachable(way, error) from error
            if response.status == 401 and not last and self._access.refused(way):
                continue
            raise error_of(response.status, data, response.headers)
        raise AssertionError("unreachable")

    def close(self) -> None:
        self._access.close()


def warnings_of(headers: urllib3.HTTPHeaderDict) -> list[str]:
    """The texts of Warning headers: `299 - "text"` (RFC 7234, 5.5)."""
    found = [_WARNING.fullmatch(value.strip()) for value in headers.getlist("Warning")]
    return [re.sub(r"\\(.)", r"\1", match[1]) for match in found if match]


def _unreachable(way: Way, error: Exception) -> Unavailable:
    return Unavailable(f"no answer from {way.server}: {_words(error)}")


def _distrusts(error: BaseException | None) -> bool:
    """Whether the server's certificate was not trusted: then nothing has been sent."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        inner = error.args[0] if error.args else None
        error = error.__cause__ or (inner if isinstance(inner, BaseException) else None)
    return False


def error_of(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> ApiError:
    """The ApiError that a refusal stands for, in the server's words."""
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        answer = None
    if not isinstance(answer, dict):
        answer = {"message": body.decode("utf-8", "replace").strip()[:500]}
    return error_of_status(answer | {"code": answer.get("code") or status}, headers)


def error_of_status(answer: dict[str, Any], headers: Mapping[str, str] | None = None) -> ApiError:
    code = int(answer.get("code") or 500)
    kind = _BY_REASON.get(str(answer.get("reason"))) or _BY_CODE.get(code)
    if kind is None:
        kind = Unavailable if code >= 502 else ApiError
    details = answer.get("details") or {}
    error = kind(str(answer.get("message") or f"HTTP {code}"), details=details)
    error.code, error.reason = code, str(answer.get("reason") or kind.reason)
    if isinstance(error, TooManyRequests):
        after = (headers or {}).get("Retry-After") or details.get("retryAfterSeconds")
        error.retry_after_s = _seconds(after)
    return error


def shut(response: urllib3.BaseHTTPResponse) -> None:
    """Ends a stream that another thread may be reading: its read returns at once."""
    sock = getattr(getattr(response, "_connection", None), "sock", None)
    if isinstance(sock, socket.socket):
        # Below TLS, whose objects are not safe to use from two threads.
        try:
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
        except OSError:
            log.debug("the stream was closed already")


def _wait_s(response: urllib3.BaseHTTPResponse, refusal: ApiError) -> float | None:
    """How long to wait before asking again; None if asking again is no use."""
    if response.status not in (429, 503):
        return None
    after = _seconds(response.headers.get("Retry-After"))
    if after is None and isinstance(refusal, TooManyRequests):
        after = refusal.retry_after_s
    return None if after is None else min(after, LONGEST_WAIT_S)


def _seconds(text: Any) -> float | None:
    try:
        return max(0.0, float(text))
    except (TypeError, ValueError):
        return None


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason or error) or type(error).__name__

"""What goes back, and what comes in: bodies within bounds, refusals, tags, packed answers."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from kai_ray.cluster.port import ApiError, BadRequest, Invalid
from kai_ray.console import shapes
from kai_ray.console.asking import Text, cause_of

BODY_LIMIT = 64 * 1024
BODY_S = 10.0
PACK_FROM = 1024


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class WrongMethod(ApiError):
    code, reason = 405, "MethodNotAllowed"


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


def encoded(answer: Any) -> tuple[bytes, str, str]:
    if isinstance(answer, Text):
        return answer.body.encode(), answer.media_type, answer.name
    return msgspec.json.encode(answer), "application/json", ""


def sent(request: Request, body: bytes, media_type: str, name: str = "") -> Response:
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
    if len(body) >= PACK_FROM and packs(request):
        body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
    return Response(body, 200, headers, media_type=media_type)


def _without_time(body: bytes) -> bytes:
    """The time of an answer is no news."""
    at = body.find(b'"at":"', 0, 200)
    return body if at < 0 else body[:at] + body[body.find(b'"', at + 6) :]


def packs(request: Request) -> bool:
    return "gzip" in (request.headers.get("accept-encoding") or "")

"""What goes back: JSON bodies, refusals as Status objects, and which form the client takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec
from starlette.responses import Response

from kai_ray.cluster.port import ApiError, Object, TooManyRequests

JSON = "application/json"


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class MethodNotAllowed(ApiError):
    code, reason = 405, "MethodNotAllowed"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class RequestTooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class Form(NamedTuple):
    """The shape of an answer: the object, a table of it, or its metadata only."""

    kind: Literal["object", "table", "metadata"] = "object"
    version: str = "v1"


def json_answer(body: Any, code: int = 200, *, warnings: Iterable[str] = ()) -> Response:
    return raw_answer(msgspec.json.encode(body), code, warnings=warnings)


def raw_answer(
    body: bytes, code: int = 200, *, media_type: str = JSON, warnings: Iterable[str] = ()
) -> Response:
    response = Response(body, code, media_type=media_type)
    response.headers["Cache-Control"] = "no-cache, private"
    add_warnings(response, warnings)
    return response


def add_warnings(response: Response, warnings: Iterable[str]) -> None:
    for text in warnings:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        # Header bytes are latin-1; what does not fit is left out rather than refused.
        value = f'299 - "{quoted}"'.encode("latin-1", "replace").decode("latin-1")
        response.headers.append("Warning", value)


def refusal(error: ApiError) -> Response:
    response = json_answer(status_of(error), error.code)
    if isinstance(error, TooManyRequests) and error.retry_after_s is not None:
        response.headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    if error.code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def status_of(error: ApiError) -> Object:
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "code": error.code,
    }
    if error.details:
        status["details"] = {key: value for key, value in error.details.items() if value}
    return status


def success(details: Object) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


def form_of(accept: str) -> Form:
    """The first form of an Accept header that we can give. Raises NotAcceptable."""
    if not accept:
        return Form()
    for clause in accept.split(","):
        media, *parameters = [part.strip() for part in clause.split(";")]
        if media.lower() not in (JSON, "application/*", "*/*"):
            continue
        given = dict(p.split("=", 1) for p in parameters if "=" in p)
        wanted, version = given.get("as", ""), given.get("v", "v1")
        if not wanted:
            return Form()
        if given.get("g") != "meta.k8s.io" or version not in ("v1", "v1beta1"):
            continue
        if wanted == "Table":
            return Form("table", version)
        if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Form("metadata", version)
    raise NotAcceptable(
        "only the following media types are accepted: application/json, "
        "application/json;as=Table;g=meta.k8s.io;v=v1, "
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    )

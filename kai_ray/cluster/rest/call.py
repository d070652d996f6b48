"""One request, read: what it names, what it asks for, what it brings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml
from starlette.requests import Request

from kai_ray.cluster.memory import Registry, Served
from kai_ray.cluster.port import BadRequest, Invalid, NotFound, Object, Resource
from kai_ray.cluster.resources import NAMESPACE

from . import protobuf
from .answers import RequestTooLarge, UnsupportedMediaType
from .users import User

BODY_LIMIT = 3 * 1024 * 1024
YAML_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names. `namespace` None: all; `name` "": the collection."""

    served: Served
    namespace: str | None = None
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> Resource:
        return self.served.resource


@dataclass(frozen=True, slots=True)
class Call:
    """A request of an authenticated user."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    user: User
    body: bytes = b""
    warnings: list[str] = field(default_factory=list[str])

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() in ("1", "t", "true")

    def number(self, name: str, default: int = 0) -> int:
        text = self.query.get(name, "")
        if not text:
            return default
        if not text.lstrip("-").isdigit():
            raise BadRequest(f"query parameter {name}={text!r}: an integer is expected")
        return int(text)

    @property
    def dry_run(self) -> bool:
        value = self.query.get("dryRun", "")
        if value not in ("", "All"):
            raise Invalid(f"query parameter dryRun={value!r}: only All is known")
        return value == "All"

    @property
    def manager(self) -> str:
        """Who manages the fields written: as told, else the client's program name."""
        told = self.query.get("fieldManager", "")
        if len(told) > 128 or not told.isprintable():
            raise Invalid("query parameter fieldManager: at most 128 printable characters")
        return told or self.headers.get("user-agent", "unknown").split("/")[0][:128]

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def decoded(self) -> Any:
        """The body's value: JSON, or YAML where the content type says so."""
        if not self.body:
            return None
        media = self.media_type
        if media in ("application/yaml", "application/apply-patch+yaml"):
            return _yaml(self.body)
        if media in ("", "application/json") or media.endswith("+json"):
            return _json(self.body)
        if media == protobuf.MEDIA_TYPE:
            return protobuf.decode(self.body)
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: "
            f"application/json, application/yaml, {protobuf.MEDIA_TYPE} (got {media})"
        )

    def object(self) -> Object:
        value = self.decoded()
        if not isinstance(value, dict):
            raise BadRequest("the body of the request must be an object")
        return value


def target_of(kinds: Registry, path: str) -> Target:
    """What a path below /api/v1 or /apis/GROUP/VERSION names. Raises NotFound."""
    parts = [part for part in path.split("/") if part]
    if parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    else:
        group, version, rest = parts[1], parts[2], parts[3:]
    namespace: str | None = None
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 and not (len(rest) > 2 and rest[2] == "proxy"):
        raise NotFound("the server could not find the requested resource")
    plural, name, sub = (*rest, "", "")[:3]
    served = kinds.by_plural(group, plural).get(version)
    if served is None:
        raise NotFound("the server could not find the requested resource")
    if served.resource.namespaced:
        if namespace is None and name:
            raise NotFound("the server could not find the requested resource")
    elif namespace is not None:
        raise NotFound("the server could not find the requested resource")
    if served.resource == NAMESPACE:
        namespace = None
    return Target(served, namespace, name, sub)


async def read_body(request: Request) -> bytes:
    """The whole body. Raises RequestTooLarge before more than the limit is held."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > BODY_LIMIT:
        raise _too_large()
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > BODY_LIMIT:
            raise _too_large()
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large() -> RequestTooLarge:
    return RequestTooLarge(f"Request entity too large: limit is {BODY_LIMIT}")


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"the body of the request is not JSON: {error}") from error


def _yaml(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)  # most clients send JSON under YAML's name
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        _check_yaml(body)
        return yaml.load(body, _Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadRequest(f"the body of the request is not YAML: {error}") from error


def _check_yaml(body: bytes) -> None:
    """Refuses aliases (a few bytes of them can stand for gigabytes) and endless nesting."""
    depth = 0
    for event in yaml.parse(body, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise BadRequest("the body of the request has YAML aliases: write them out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > YAML_DEPTH:
                raise BadRequest(f"the body is nested more than {YAML_DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as JSON has it: times stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

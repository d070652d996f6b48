"""From protobuf bytes to the JSON object that Go would have written for the same value.

`fields.txt` says which number is which field (its form: tests/parts/protobuf_fields.py, which
collects it). Go's messages carry zero values that its JSON leaves out: they are left out here too.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import BadRequest, Object

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
DEEPEST = 100

_FIELD = re.compile(
    r"(?P<inlined>\+?)(?P<name>[^=]+)=(?P<number>\d+)(?P<many>\*?)(?P<type>[^?]+)(?P<kept>\??)"
)
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Field(NamedTuple):
    name: str
    type: str  # of one value
    many: bool
    mapped: bool
    inlined: bool
    kept: bool


def decode(body: bytes) -> Object:
    """The object of a request body. Raises BadRequest for what is malformed or not known."""
    if not body.startswith(MAGIC):
        raise BadRequest("the body of the request is not Kubernetes protobuf")
    try:
        envelope = _parts(body[len(MAGIC) :])
        about = _parts(envelope[1][-1]) if 1 in envelope else {}
        api_version, kind = (_text(about[n][-1]) if n in about else "" for n in (1, 2))
        made = _message(_name_of(api_version, kind), envelope.get(2, [b""])[-1], 0)
    except (IndexError, ValueError, TypeError, struct.error) as error:
        raise BadRequest(f"the body of the request is not valid protobuf: {error}") from error
    return {"apiVersion": api_version, "kind": kind, **made}


def _name_of(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    name = f"{group.split('.')[0] or 'core'}.{version}.{kind}"
    if kind == "DeleteOptions":  # every group has it
        name = "meta.v1.DeleteOptions"
    if name not in _messages():
        raise BadRequest(f"{kind} of {api_version} is not known in protobuf: send it as JSON")
    return name


@cache
def _messages() -> dict[str, dict[int, Field]]:
    found: dict[str, dict[int, Field]] = {}
    text = (files("kai_ray.cluster.rest.protobuf") / "fields.txt").read_text()
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        message, *fields = line.split(" ")
        found[message] = {}
        for field in fields:
            match = _FIELD.fullmatch(field)
            assert match is not None, field
            mapped = match["type"].startswith("{")
            found[message][int(match["number"])] = Field(
                match["name"],
                match["type"].strip("{}"),
                bool(match["many"]),
                mapped,
                bool(match["inlined"]),
                bool(match["kept"]),
            )
    return found


def _message(name: str, data: bytes, depth: int) -> Any:
    if depth > DEEPEST:
        raise BadRequest(f"the body is nested more than {DEEPEST} levels deep")
    special = _SPECIAL.get(name)
    if special is not None:
        return special(data)
    fields = _messages()[name]
    made: Object = {}
    for number, values in _parts(data).items():
        field = fields.get(number)
        if field is None:
            continue  # a newer release's field
        if field.mapped:
            made[field.name] = dict(_entry(field.type, value, depth) for value in values)
        elif field.many:
            made[field.name] = [v for raw in values for v in _several(field.type, raw, depth)]
        else:
            value = _value(field.type, values[-1], depth)
            if field.inlined:
                made.update(value)
            elif value is not None and (field.kept or value not in ("", 0, False, {})):
                made[field.name] = value
    return made


def _entry(kind: str, data: Any, depth: int) -> tuple[str, Any]:
    parts = _parts(data)
    key = _text(parts[1][-1]) if 1 in parts else ""
    empty: Any = 0 if kind in ("i", "b") else b""
    return key, _value(kind, parts[2][-1] if 2 in parts else empty, depth)


def _several(kind: str, raw: Any, depth: int) -> Iterator[Any]:
    if kind in ("i", "b") and isinstance(raw, bytes):  # packed
        at = 0
        while at < len(raw):
            number, at = _varint(raw, at)
            yield _value(kind, number, depth)
    else:
        yield _value(kind, raw, depth)


def _value(kind: str, raw: Any, depth: int) -> Any:
    if kind == "s":
        return _text(raw)
    if kind == "i":
        return raw - 2**64 if raw >= 2**63 else raw
    if kind == "b":
        return bool(raw)
    if kind == "y":
        return base64.b64encode(raw).decode()
    if kind == "f":
        return struct.unpack("<d", raw)[0]
    return _message(kind, raw, depth + 1)


def _text(raw: bytes) -> str:
    return str(raw, "utf-8")  # a number here is a TypeError, which the caller expects


def _parts(data: bytes) -> dict[int, list[Any]]:
    """The values of a message by field number: integers, or bytes."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, form = key >> 3, key & 7
        if form == _VARINT:
            value, at = _varint(data, at)
        elif form == _BYTES:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
        elif form in (_FIXED64, _FIXED32):
            length = 8 if form == _FIXED64 else 4
            value, at = data[at : at + length], at + length
        else:
            raise ValueError(f"wire type {form}")
        if at > len(data):
            raise ValueError("it ends too early")
        found.setdefault(number, []).append(value)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & (2**64 - 1), at
        shift += 7
        if shift > 63:
            raise ValueError("an integer is longer than ten bytes")


def _quantity(data: bytes) -> str:
    parts = _parts(data)
    return _text(parts[1][-1]) if 1 in parts else "0"


def _time(data: bytes, *, micro: bool = False) -> str | None:
    if not data:
        return None
    parts = _parts(data)
    seconds = _value("i", parts.get(1, [0])[-1], 0)
    nanos = _value("i", parts.get(2, [0])[-1], 0)
    try:
        return rfc3339(seconds + nanos / 1e9 if micro else seconds, micro=micro)
    except (OverflowError, OSError) as error:
        raise ValueError(f"time {seconds} is out of range") from error


def _micro_time(data: bytes) -> str | None:
    return _time(data, micro=True)


def _int_or_string(data: bytes) -> int | str:
    parts = _parts(data)
    if parts.get(1, [0])[-1]:
        return _text(parts[3][-1]) if 3 in parts else ""
    return _value("i", parts.get(2, [0])[-1], 0)


def _raw_json(data: bytes) -> Any:
    raw = _parts(data).get(1, [b""])[-1]
    try:
        return msgspec.json.decode(raw) if raw else None
    except msgspec.DecodeError as error:
        raise ValueError(f"an embedded object is not JSON: {error}") from error


def _items(data: bytes) -> list[str]:
    return [_text(item) for item in _parts(data).get(1, [])]


_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    "api.resource.Quantity": _quantity,
    "meta.v1.Time": _time,
    "meta.v1.MicroTime": _micro_time,
    "meta.v1.FieldsV1": _raw_json,
    "util.intstr.IntOrString": _int_or_string,
    "pkg.runtime.RawExtension": _raw_json,
    "authentication.v1.ExtraValue": _items,
    "authorization.v1.ExtraValue": _items,
}

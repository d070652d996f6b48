"""The few protobuf messages of Ray's GCS that we send and read, field by field.

Ray's own definitions come with Ray, which is a hundred times the size of this program. Fields keep
their numbers for ever, so these few can be read and written here.

Source: Ray 2.60, `ray.rpc.autoscaler` (autoscaler.proto): NodeState, DrainNodeRequest and their
enums; the same numbers since Ray 2.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

#: DrainNodeReason: one that Ray may not refuse.
PREEMPTION = 2
NodeStatus = Literal["unspecified", "running", "dead", "idle", "draining"]
_STATUS: tuple[NodeStatus, ...] = ("unspecified", "running", "dead", "idle", "draining")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class BadMessage(ValueError):
    """What came is not the message that was expected."""


@dataclass(frozen=True, slots=True)
class RayNode:
    """One node as Ray's head sees it. `instance` is the pod's name where KubeRay started it."""

    node_id: bytes
    instance: str
    ip: str
    status: NodeStatus


def drain_request(node_id: bytes, message: str, deadline_ms: int) -> bytes:
    """DrainNodeRequest."""
    return b"".join(
        (
            _bytes(1, node_id),
            _number(2, PREEMPTION),
            _bytes(3, message.encode()),
            _number(4, deadline_ms),
        )
    )


def drain_reply(raw: bytes) -> tuple[bool, str]:
    """DrainNodeReply: whether Ray does it, and why not."""
    accepted, why = False, ""
    for number, value in fields(raw):
        if number == 1 and isinstance(value, int):
            accepted = bool(value)
        elif number == 2 and isinstance(value, bytes):
            why = value.decode(errors="replace")
    return accepted, why


def nodes(raw: bytes) -> list[RayNode]:
    """GetClusterResourceStateReply: all nodes, those that are dead for a while included."""
    found: list[RayNode] = []
    for number, state in fields(raw):
        if number == 1 and isinstance(state, bytes):
            for inner, node in fields(state):
                if inner == 3 and isinstance(node, bytes):
                    found.append(_node(node))
    return found


def _node(raw: bytes) -> RayNode:
    node_id, instance, ip, status = b"", "", "", 0
    for number, value in fields(raw):
        if isinstance(value, bytes):
            if number == 1:
                node_id = value
            elif number == 2:
                instance = value.decode(errors="replace")
            elif number == 10:
                ip = value.decode(errors="replace")
        elif number == 8:
            status = value
    word = _STATUS[status] if status < len(_STATUS) else "unspecified"
    return RayNode(node_id, instance, ip, word)


def fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of every field: numbers as integers, all else as bytes. Raises BadMessage."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        number, form = key >> 3, key & 7
        if form == _VARINT:
            value, at = _varint(raw, at)
            yield number, value
            continue
        if form == _BYTES:
            size, at = _varint(raw, at)
        elif form in (_FIXED64, _FIXED32):
            size = 8 if form == _FIXED64 else 4
        else:
            raise BadMessage(f"field {number} has the unknown form {form}")
        if at + size > len(raw):
            raise BadMessage(f"field {number} is cut short")
        yield number, raw[at : at + size]
        at += size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw) or shift > 63:
            raise BadMessage("a number is cut short")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _number(field: int, value: int) -> bytes:
    return _encoded(field << 3 | _VARINT) + _encoded(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _encoded(field << 3 | _BYTES) + _encoded(len(value)) + value


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)

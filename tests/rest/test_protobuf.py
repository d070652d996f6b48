"""Protobuf bodies of Go's typed clients, written here by hand from the field numbers."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.cluster.port import BadRequest
from kai_ray.cluster.rest.protobuf import decode
from kai_ray.cluster.rest.protobuf.decode import MAGIC


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number: int, value: bytes | str | int | list[bytes]) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, list):
        value = b"".join(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(api_version: str, kind: str, *fields: bytes) -> bytes:
    return MAGIC + field(1, [field(1, api_version), field(2, kind)]) + field(2, list(fields))


def test_a_pod_arrives_whole() -> None:
    container = field(2, [field(1, "main"), field(2, "img"), field(3, "a"), field(3, "b")])
    volume = field(1, [field(1, "scratch"), field(2, [field(2, b"")])])
    meta = field(
        1, [field(1, "p"), field(3, ""), field(8, b""), field(11, [field(1, "k"), field(2, "v")])]
    )
    spec = field(2, [container, volume, field(4, 0), field(11, 0), field(25, -7)])
    made = decode(body("v1", "Pod", meta, spec, field(3, b"")))
    assert made == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"k": "v"}},
        "spec": {
            "containers": [{"name": "main", "image": "img", "command": ["a", "b"]}],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "terminationGracePeriodSeconds": 0,
            "priority": -7,
        },
    }, "what Go omits is left out, pointers to zero and to {} are kept, inlined fields lie flat"


def test_quantities_times_and_int_or_strings_take_their_json_form() -> None:
    requests = field(2, [field(1, "cpu"), field(2, [field(1, "100m")])])
    probe = field(
        10, [field(1, [field(3, [field(1, [field(1, 1), field(3, "http")])])]), field(2, 5)]
    )
    container = field(2, [field(1, "c"), field(8, [requests]), probe])
    made = decode(body("v1", "Pod", field(2, [container])))["spec"]["containers"][0]
    assert made["resources"] == {"requests": {"cpu": "100m"}}
    assert made["livenessProbe"] == {"tcpSocket": {"port": "http"}, "initialDelaySeconds": 5}
    lease = field(2, [field(1, "me"), field(3, [field(1, 1_767_225_600), field(2, 250_000_000)])])
    spec = decode(body("coordination.k8s.io/v1", "Lease", lease))["spec"]
    assert spec == {"holderIdentity": "me", "acquireTime": "2026-01-01T00:00:00.250000Z"}


def test_bytes_are_base64_and_other_groups_are_found() -> None:
    data = field(2, [field(1, "k"), field(2, b"\x00\xff")])
    assert decode(body("v1", "Secret", data))["data"] == {"k": "AP8="}
    rule = field(2, [field(1, "get"), field(2, ""), field(3, "pods")])
    made = decode(body("rbac.authorization.k8s.io/v1", "Role", rule))
    assert made["rules"] == [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
    made = decode(body("policy/v1", "DeleteOptions", field(1, 0)))
    assert made["gracePeriodSeconds"] == 0, "every group has its DeleteOptions"


def test_packed_integers_and_unknown_fields_are_read_over() -> None:
    exit_codes = field(2, [field(1, "In"), field(2, varint(3) + varint(300))])
    unknown = field(999, "later") + varint(998 << 3 | 1) + struct.pack("<d", 1.0)
    container = field(2, [field(1, "c"), field(25, [field(1, "Restart"), exit_codes]), unknown])
    (made,) = decode(body("v1", "Pod", field(2, [container])))["spec"]["containers"]
    assert made["restartPolicyRules"][0]["exitCodes"] == {"operator": "In", "values": [3, 300]}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{}", "not Kubernetes protobuf"),
        (MAGIC, "is not known in protobuf"),
        (body("v1", "Unicorn"), "Unicorn of v1 is not known"),
        (body("v1", "Pod")[:-1] + b"\x7f", "not valid protobuf"),
        (body("v1", "Pod", field(1, [field(1, b"\xff")])), "not valid protobuf"),
        (body("v1", "Pod", b"\x0b"), "wire type 3"),
        (body("v1", "Pod", b"\x08" + b"\xff" * 11), "longer than ten bytes"),
    ],
)
def test_malformed_bodies_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        decode(data)


def test_a_number_where_text_belongs_is_refused() -> None:
    with pytest.raises(BadRequest, match="not valid protobuf"):
        decode(MAGIC + field(1, [field(1, "v1"), field(2, "Event")]) + field(2, b"\x20\x00"))


@given(st.binary(max_size=200), st.sampled_from(["Pod", "Secret", "Event", "Node", "Binding"]))
def test_no_bytes_crash_the_reader(data: bytes, kind: str) -> None:
    try:
        made: Any = decode(MAGIC + field(1, [field(1, "v1"), field(2, kind)]) + field(2, data))
    except BadRequest:
        return
    assert made["kind"] == kind

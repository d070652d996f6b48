"""Protobuf by hand: what is written is read back, and nothing that comes makes it fall."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.ray import messages
from kai_ray.ray.messages import BadMessage, fields


def test_a_request_is_what_ray_writes_itself() -> None:
    """Bytes of DrainNodeRequest.SerializeToString() of Ray 2.60."""
    raw = messages.drain_request(b"\x01\x02", "room for x", 1_700_000_000_123)
    assert raw == b"\x0a\x02\x01\x02\x10\x02\x1a\x0aroom for x\x20\xfb\xd0\x95\xff\xbc\x31"


@pytest.mark.parametrize(
    ("raw", "answer"),
    [(b"\x08\x01", (True, "")), (b"", (False, "")), (b"\x12\x04busy", (False, "busy"))],
)
def test_an_answer_is_read(raw: bytes, answer: tuple[bool, str]) -> None:
    assert messages.drain_reply(raw) == answer


@given(st.binary(max_size=64), st.text(max_size=40), st.integers(0, 2**63 - 1))
def test_what_is_written_is_read_back(node_id: bytes, text: str, deadline_ms: int) -> None:
    found = dict(fields(messages.drain_request(node_id, text, deadline_ms)))
    assert found == {1: node_id, 2: messages.PREEMPTION, 3: text.encode(), 4: deadline_ms}


@given(st.binary(max_size=200))
def test_noise_is_refused_or_read_but_never_worse(raw: bytes) -> None:
    try:
        messages.nodes(raw)
        messages.drain_reply(raw)
    except BadMessage:
        pass


@pytest.mark.parametrize("raw", [b"\x0a\x05abc", b"\x08", b"\x0b", b"\x80" * 12])
def test_what_is_cut_short_is_refused(raw: bytes) -> None:
    with pytest.raises(BadMessage):
        list(fields(raw))

"""A head that speaks as much of Ray's GCS as draining takes, on a loopback port."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import grpc

from kai_ray.ray.messages import fields

SERVICE = "ray.rpc.autoscaler.AutoscalerStateService"
RUNNING, DEAD, IDLE, DRAINING = 1, 2, 3, 4


@dataclass
class Node:
    node_id: bytes
    instance: str = ""
    ip: str = ""
    status: int = RUNNING


@dataclass
class Head:
    """`refuses` is its answer to a drain; "" = it does it."""

    nodes: list[Node] = field(default_factory=list)
    refuses: str = ""
    asked: list[tuple[bytes, int, str, int]] = field(default_factory=list)
    """(node, reason, message, deadline in ms) of every drain."""

    def __enter__(self) -> Head:
        def of(method: object) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(lambda body, _: method(body))  # type: ignore[operator]

        self._server = grpc.server(ThreadPoolExecutor(2))
        handlers = {"GetClusterResourceState": of(self._state), "DrainNode": of(self._drain)}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.stop(None)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _state(self, body: bytes) -> bytes:
        inner = b"".join(_part(3, _node(n)) for n in self.nodes)
        return _part(1, b"\x08\x07" + inner)

    def _drain(self, body: bytes) -> bytes:
        found = dict(fields(body))
        node = next(n for n in self.nodes if n.node_id == found[1])
        self.asked.append((found[1], found[2], found[3].decode(), found[4]))  # type: ignore
        if self.refuses:
            return _part(2, self.refuses.encode())
        node.status = DRAINING
        return b"\x08\x01"


def _node(node: Node) -> bytes:
    return b"".join(
        (
            _part(1, node.node_id),
            _part(2, node.instance.encode()),
            bytes((8 << 3, node.status)),
            _part(10, node.ip.encode()),
            _part(4, b"\x0a\x03CPU\x11\x00\x00\x00\x00\x00\x00\xf0?"),
        )
    )


def _part(number: int, value: bytes) -> bytes:
    assert len(value) < 2**14
    size = len(value)
    length = bytes((size,)) if size < 128 else bytes((size & 127 | 128, size >> 7))
    return bytes((number << 3 | 2,)) + length + value

"""Ray's head over gRPC: which nodes there are, and please empty this one.

Needs `grpcio`, which the extra `ray` brings; without it every call says so. A cluster that asks for
a token (KubeRay's `authOptions`) or for TLS between its nodes refuses us: `GcsUnavailable`.
"""

from __future__ import annotations

from typing import Any

from kai_ray.ray import messages

_SERVICE = "/ray.rpc.autoscaler.AutoscalerStateService/"
_TIMEOUT_S = 5.0


class GcsUnavailable(Exception):
    """Nobody answers there, or not what was asked; the text says why."""


class GrpcMissing(GcsUnavailable):
    """No head can be asked from here."""


class Gcs:
    """One head. Close it after use."""

    def __init__(self, address: str, timeout_s: float = _TIMEOUT_S) -> None:
        """`address` is host:port. Raises GrpcMissing where grpcio is not installed."""
        try:
            import grpc
        except ImportError as error:
            mend = "install kai-ray[ray], which brings grpcio"
            raise GrpcMissing(f"this process cannot speak gRPC: {mend}") from error
        self._grpc = grpc
        self._timeout_s = timeout_s
        # Proxies of the environment are for the world outside, not for pods.
        self._channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
        self._address = address

    def nodes(self) -> list[messages.RayNode]:
        """All nodes that the head knows. Raises GcsUnavailable."""
        return self._read(messages.nodes, self._call("GetClusterResourceState", b""))

    def drain(self, node_id: bytes, message: str, deadline_ms: int) -> tuple[bool, str]:
        """Asks to empty a node by then (epoch milliseconds): whether Ray does it, and why not.

        The node takes no new work, and leaves once it has none. Raises GcsUnavailable.
        """
        body = messages.drain_request(node_id, message, deadline_ms)
        return self._read(messages.drain_reply, self._call("DrainNode", body))

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Gcs:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _call(self, method: str, body: bytes) -> bytes:
        call = self._channel.unary_unary(_SERVICE + method)
        try:
            return call(body, timeout=self._timeout_s)
        except self._grpc.RpcError as error:
            code: Any = getattr(error, "code", lambda: None)()
            word = code.name if code is not None else type(error).__name__
            text = getattr(error, "details", lambda: "")() or ""
            raise GcsUnavailable(f"{self._address} says {word}: {text}"[:300]) from error

    def _read(self, read: Any, raw: bytes) -> Any:
        try:
            return read(raw)
        except messages.BadMessage as error:
            raise GcsUnavailable(
                f"{self._address} gave an answer of another form: {error}"
            ) from error

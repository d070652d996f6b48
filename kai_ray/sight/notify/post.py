"""One POST, done or given up before a deadline whatever the other side does."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Sequence
from typing import NamedTuple

from kai_ray.cluster.clock import steady_s
from kai_ray.sight.notify.address import Address

_MOST_READ = 2048


class Answer(NamedTuple):
    status: int
    retry_after_s: float | None
    text: str


class PostError(OSError):
    """No answer; the text says why."""


def post(
    address: Address,
    places: Sequence[str],
    body: bytes,
    deadline_s: float,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Speaks to the first of `places` that takes the connection. Raises PostError.

    A server that sends a byte now and then would keep a plain time-out waiting for ever: at the
    deadline the connection is cut from outside.
    """
    end_s = steady_s() + deadline_s
    try:
        wire = _connected(places, address.port, end_s)
    except OSError as error:
        raise PostError(f"cannot be reached ({error})") from error
    held = [wire]
    timer = threading.Timer(max(0.0, end_s - steady_s()), _cut, (held,))
    timer.daemon = True
    timer.start()
    try:
        if address.scheme == "https":
            context = tls or ssl.create_default_context()
            wire = context.wrap_socket(
                wire, server_hostname=address.host, do_handshake_on_connect=False
            )
            held[0] = wire
            wire.do_handshake()
        return _exchange(wire, address, body, end_s)
    except (OSError, http.client.HTTPException, ValueError) as error:
        late = steady_s() >= end_s
        why = f"gave no answer within {deadline_s:g} s" if late else f"failed ({error!r})"
        raise PostError(why) from error
    finally:
        timer.cancel()
        with contextlib.suppress(OSError):
            wire.close()


def _connected(places: Sequence[str], port: int, end_s: float) -> socket.socket:
    problem: OSError = PostError("no address")
    for place in places:
        left_s = end_s - steady_s()
        if left_s <= 0:
            break
        try:
            wire = socket.create_connection((place, port), timeout=max(left_s / 2, 0.05))
        except OSError as error:
            problem = error
            continue
        wire.settimeout(max(end_s - steady_s(), 0.05))
        return wire
    raise problem


def _cut(held: list[socket.socket]) -> None:
    """Whoever waits on the socket wakes with an error; the descriptor stays its owner's."""
    with contextlib.suppress(OSError, ValueError):
        socket.socket.shutdown(held[0], socket.SHUT_RDWR)


def _exchange(wire: socket.socket, address: Address, body: bytes, end_s: float) -> Answer:
    host = f"[{address.host}]" if ":" in address.host else address.host
    connection = http.client.HTTPConnection(host, address.port)
    connection.sock = wire
    default = 443 if address.scheme == "https" else 80
    headers = {
        "Host": host if address.port == default else f"{host}:{address.port}",
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "kai-ray",
        "Connection": "close",
    }
    connection.request("POST", address.path, body, headers)
    answer = connection.getresponse()
    if steady_s() >= end_s:  # cut short, headers look as if they had ended
        raise TimeoutError
    text = b""
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        text = answer.read(_MOST_READ)  # the status has said it already
    return Answer(
        answer.status, _seconds(answer.getheader("Retry-After")), text.decode("utf-8", "replace")
    )


def _seconds(text: str | None) -> float | None:
    """Retry-After in seconds; its form with a date is passed over."""
    if text is None or not text.strip().isascii() or not text.strip().isdigit():
        return None
    return min(float(text.strip()), 86_400.0)

"""A webhook of our own on loopback, which answers as it is told."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Webhook:
    """`answer(n)` gives status and headers of request n (from 0)."""

    answer: Callable[[int], tuple[int, dict[str, str]]] = lambda n: (200, {})
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    url: str = ""

    @property
    def texts(self) -> list[str]:
        return [body["text"] for body in self.bodies]


@contextlib.contextmanager
def webhook(tls: ssl.SSLContext | None = None, **settings: Any) -> Iterator[Webhook]:
    hook = Webhook(**settings)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hook.times.append(time.monotonic())
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            status, headers = hook.answer(len(hook.bodies))
            hook.bodies.append(json.loads(raw))
            hook.headers.append(dict(self.headers))
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "https" if tls else "http"
    hook.url = f"{scheme}://localhost:{server.server_port}/hook?key=secret"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def hanging(drip: bytes = b"") -> Iterator[str]:
    """Takes connections and never answers; with `drip`, sends that again and again."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.02)
    ended = threading.Event()
    held: list[socket.socket] = []

    def serve() -> None:
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                held.append(listener.accept()[0])
            for wire in held if drip else ():
                with contextlib.suppress(OSError):
                    wire.send(drip)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        ended.set()
        thread.join()
        for wire in [*held, listener]:
            wire.close()


def until(done: Callable[[], bool], timeout_s: float = 20.0) -> None:
    end = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)

"""Answers whether the process lives and whether it serves: /healthz, /livez, /readyz."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: "" for well, else what is wrong.
Check = Callable[[], str]


class HealthServer:
    """Listens on `host:port` (port 0: any free one) until `stop`. Says nothing but these checks."""

    def __init__(self, host: str, port: int, alive: Check, ready: Check) -> None:
        checks = {"/healthz": alive, "/livez": alive, "/readyz": ready}

        class Handler(BaseHTTPRequestHandler):
            timeout = 5  # a caller that says nothing must not hold a thread

            def do_GET(self) -> None:
                check = checks.get(self.path.partition("?")[0])
                problem = "no such check" if check is None else check()
                body = (problem or "ok").encode() + b"\n"
                self.send_response(404 if check is None else 503 if problem else 200)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True
        )

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join(timeout=5)
        self._server.server_close()

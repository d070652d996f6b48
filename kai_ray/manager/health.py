"""Answers whether the process lives and whether it serves: /healthz, /livez, /readyz.

Further pages, such as /metrics, are given by who starts it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

log = logging.getLogger(__name__)

#: "" for well, else what is wrong.
Check = Callable[[], str]
#: From the Accept header to content type and body.
Page = Callable[[str], tuple[str, bytes]]

_PLAIN = "text/plain; charset=utf-8"


class HealthServer:
    """Listens on `host:port` (port 0: any free one) until `stop`. Answers GET and HEAD only."""

    def __init__(
        self,
        host: str,
        port: int,
        alive: Check,
        ready: Check,
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        checks = {"/healthz": alive, "/livez": alive, "/readyz": ready}
        known = dict(pages or {})

        class Handler(BaseHTTPRequestHandler):
            timeout = 5  # a caller that says nothing must not hold a thread

            def do_GET(self) -> None:
                code, content_type, body = self._answer(self.path.partition("?")[0])
                self.send_response(code)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_HEAD = do_GET

            def _answer(self, path: str) -> tuple[int, str, bytes]:
                if path in known:
                    try:
                        return 200, *known[path](self.headers.get("Accept") or "")
                    except Exception as error:  # whoever asks must not be left without an answer
                        log.exception("%s failed", path)
                        return 500, _PLAIN, f"{path} failed: {error!r}\n".encode()
                check = checks.get(path)
                problem = "no such check" if check is None else check()
                code = 404 if check is None else 503 if problem else 200
                return code, _PLAIN, (problem or "ok").encode() + b"\n"

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

"""The admission webhook: HTTPS, one path per webhook, answers from the plugins.

Bodies, requests at a time and waiting are bounded, so that nobody who reaches the port can fill
the memory. A new certificate serves the next connection; nothing is restarted.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kai_ray.admission.review import BadReview, answer
from kai_ray.cluster.port import Admission, Port
from kai_ray.cluster.serving import Limits, Serving

log = logging.getLogger(__name__)

PATH = "/admit"
#: An API server takes objects up to 3 MiB, and sends the old one along with the new one.
LARGEST_BODY = 8 * 2**20
#: All bodies that are being read or answered, together.
MOST_HELD = 256 * 2**20
CONCURRENT = 1024
WORKERS = 8
BODY_WITHIN_S = 10.0


class WebhookServer:
    """Serves on `host:port` (port 0: any free one) from `start` on, once `use` gave a certificate.

    Before that, connections are refused in the handshake.
    """

    def __init__(
        self, plugins: Sequence[Admission], reader: Port, host: str = "0.0.0.0", port: int = 9443
    ) -> None:
        self._plugins = list(plugins)
        self._reader = reader
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._workers = ThreadPoolExecutor(WORKERS, "admission")
        self._held = 0  # bytes of bodies; only the server's own thread counts
        limits, tls = Limits(CONCURRENT), self._context
        self._serving = Serving(self._app, host, port, name="kai-admission", limits=limits, tls=tls)
        self.certified = threading.Event()

    def use(self, certificate: str, key: str) -> None:
        """Serves this pair (PEM) from the next connection on."""
        with tempfile.TemporaryDirectory(prefix="kai-ray-") as folder:  # only its owner may look
            files = Path(folder) / "tls.crt", Path(folder) / "tls.key"
            for file, text in zip(files, (certificate, key), strict=True):
                file.touch(mode=0o600)
                file.write_text(text)
            self._context.load_cert_chain(*files)
        self.certified.set()

    @property
    def port(self) -> int:
        return self._serving.port

    def start(self) -> None:
        """Returns when connections are taken. Raises OSError if the port is taken."""
        self._serving.start()

    def problem(self) -> str:
        """ "" while reviews are answered; else what is missing."""
        if not self._serving.alive():
            return "the webhook does not listen"
        return "" if self.certified.is_set() else "the webhook has no certificate yet"

    def stop(self) -> None:
        """Answers what is under way, closes. Safe to call twice."""
        self._serving.stop()
        self._workers.shutdown(wait=False, cancel_futures=True)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        status, body = await self._respond(scope, receive)
        kind = b"application/json" if status == 200 else b"text/plain; charset=utf-8"
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _respond(self, scope: Any, receive: Any) -> tuple[int, bytes]:
        if not (scope["path"] == PATH or scope["path"].startswith(PATH + "/")):
            return 404, b"reviews go to /admit\n"
        if scope["method"] != "POST":
            return 405, b"reviews are posted\n"
        parts: list[bytes] = []
        try:
            problem = await asyncio.wait_for(self._read(receive, parts), BODY_WITHIN_S)
            return problem or await self._review(b"".join(parts))
        except TimeoutError:
            return 408, b"the body did not come\n"
        finally:
            self._held -= sum(len(part) for part in parts)

    async def _read(self, receive: Any, parts: list[bytes]) -> tuple[int, bytes] | None:
        """Fills `parts` with the body; what is wrong if it is too large, here or for now."""
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return 400, b"the body is not complete\n"
            part = message.get("body", b"")
            parts.append(part)
            self._held += len(part)
            size += len(part)
            if size > LARGEST_BODY:
                return 413, f"more than {LARGEST_BODY} bytes\n".encode()
            if self._held > MOST_HELD:
                return 503, b"too many reviews at a time\n"
            if not message.get("more_body"):
                return None

    async def _review(self, raw: bytes) -> tuple[int, bytes]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(
                self._workers, answer, raw, self._plugins, self._reader
            )
        except BadReview as error:
            return 400, f"{error}\n".encode()
        except Exception:  # the failure policy of the webhook decides
            log.exception("a review could not be answered")
            return 500, b"internal error: see the log\n"
        return 200, found

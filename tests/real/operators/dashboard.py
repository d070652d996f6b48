"""Answers for the Ray heads of simulated pods, so that the real KubeRay sees its jobs go on.

    python dashboard.py SECONDS

Inside a plane's own network every pod's address is this machine's: one server on Ray's dashboard
port and one on Serve's port answer for all heads. A job counts as submitted when it is first asked
for (no kubelet runs the submitter's container here), runs for SECONDS and succeeds; one whose
identifier begins with `fails-` fails, one with `runs-` goes on for ever. Serve applications are
always running.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DASHBOARD, SERVE = 8265, 8000
APPLICATION = {
    "name": "app",
    "status": "RUNNING",
    "route_prefix": "/",
    "deployments": {"D": {"name": "D", "status": "HEALTHY"}},
}


class Heads:
    """When each job was first asked for."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[str, float] = {}
        self._lock = threading.Lock()

    def job(self, name: str) -> dict[str, object]:
        now = time.monotonic()
        with self._lock:
            since = self._since.setdefault(name, now)
        failing = name.startswith("fails-")
        status = "RUNNING"
        if now - since >= self._seconds and not name.startswith("runs-"):
            status = "FAILED" if failing else "SUCCEEDED"
        message = "the entrypoint ended with 1" if status == "FAILED" else ""
        return {"job_id": name, "submission_id": name, "status": status, "message": message}


def handler(heads: Heads) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0].rstrip("/")
            if path.startswith("/api/jobs/"):
                self._say(heads.job(path.rpartition("/")[2]))
            elif path == "/api/jobs":
                self._say([])
            elif path == "/api/serve/applications":
                self._say({"applications": {"app": APPLICATION}})
            else:
                self._say("success")

        def do_POST(self) -> None:
            body = json.loads(self._body() or "{}")
            if self.path.endswith("/stop"):
                self._say({"stopped": True})
            else:
                self._say({"job_id": body["submission_id"]})

        def do_PUT(self) -> None:
            self._body()
            self._say({})

        do_DELETE = do_PUT

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _say(self, answer: object) -> None:
            data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return

    return Answers


def main(seconds: float) -> None:
    answers = handler(Heads(seconds))
    servers = [ThreadingHTTPServer(("0.0.0.0", port), answers) for port in (DASHBOARD, SERVE)]
    threads = [threading.Thread(target=server.serve_forever) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(float(sys.argv[1]))

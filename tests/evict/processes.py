"""A kubelet stand-in for pods that really run: each of a workload's pods is a process here.

It gives a process what its pod would see: the notice as a file, its name, and a service account for
the API server. It ends it with SIGTERM (or `ends_with`) when the pod is told to end, and kills it
when the pod is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.cluster.rest import RestServer
from kai_ray.sim.embedded import EmbeddedCluster


@dataclass
class Process:
    pod: str
    process: subprocess.Popen[bytes]
    log: Path
    notice: Path
    told: bool = False


@dataclass
class ProcessKubelet:
    """Runs `command` for every pod whose name begins with `prefix`; `with` it, while it should."""

    cluster: EmbeddedCluster
    prefix: str
    command: list[str]
    env: dict[str, str]
    folder: Path
    ends_with: signal.Signals = signal.SIGTERM
    ran: list[Process] = field(default_factory=list)
    """Every process so far, by the order in which they began."""

    def __enter__(self) -> ProcessKubelet:
        self._server: RestServer = self.cluster.serve()
        account = self.folder / "account"
        account.mkdir(parents=True)
        reached = self._server.connection()
        (account / "token").write_text(reached.token)
        (account / "ca.crt").write_bytes(reached.ca_pem or b"")
        self._account = account
        self._running: dict[str, Process] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join(10)
        for one in self.ran:
            if one.process.poll() is None:
                one.process.kill()
            one.process.wait(10)

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            pods = {
                p["metadata"]["uid"]: p
                for p in self.cluster.store.list(R.POD).items
                if p["metadata"]["name"].startswith(self.prefix)
            }
            for uid, pod in pods.items():
                self._see(uid, pod)
            for uid in self._running.keys() - pods.keys():
                self._running.pop(uid).process.kill()

    def _see(self, uid: str, pod: Object) -> None:
        known = self._running.get(uid)
        if known is None:
            if (pod.get("status") or {}).get("phase") == "Running":
                self._running[uid] = self._start(uid, pod)
            return
        said = (pod["metadata"].get("annotations") or {}).get(L.EVICTION_NOTICE, "")
        if known.notice.read_text() != said:
            known.notice.write_text(said)
        if pod["metadata"].get("deletionTimestamp") and not known.told:
            known.told = True
            known.process.send_signal(self.ends_with)

    def _start(self, uid: str, pod: Object) -> Process:
        place = self.folder / uid
        place.mkdir()
        notice, log = place / "eviction-notice", place / "log"
        notice.write_text("")
        server = urlsplit(self._server.url)
        env = os.environ | {
            "NOTICE_FILE": str(notice),
            "SERVICE_ACCOUNT_DIR": str(self._account),
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
            "POD_NAME": pod["metadata"]["name"],
            "POD_NAMESPACE": pod["metadata"]["namespace"],
            **self.env,
        }
        with log.open("wb") as out:
            process = subprocess.Popen(self.command, env=env, stdout=out, stderr=out)
        made = Process(pod["metadata"]["name"], process, log, notice)
        self.ran.append(made)
        return made


def steps(one: Process) -> list[int]:
    """The steps that a process has done, as its log says."""
    words = (line.split() for line in one.log.read_text().splitlines())
    return [int(w[1]) for w in words if w[:1] == ["step"]]


def began_at(one: Process, seconds: float = 30) -> int:
    """The step that a process begins with."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for line in one.log.read_text().splitlines():
            if line.startswith("begins at step "):
                return int(line.split()[-1])
        time.sleep(0.1)
    raise AssertionError(one.log.read_text())

"""Credentials that a program gives: the `exec` users of a kubeconfig.

The program is run when its credentials are needed, when they are about to expire, and when the
server has refused them. It answers with an ExecCredential on standard output.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .clock import Clock, SystemClock, epoch
from .kubeconfig import Config, KubeconfigError

PATIENCE_S = 60.0
#: Credentials are renewed so long before they expire.
_EARLY_S = 20.0
_GROUP = "client.authentication.k8s.io"


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """What a program gave. `expires_s`: seconds since the epoch, infinite if it did not say."""

    token: str = ""
    certificate: tuple[bytes, bytes] | None = None
    expires_s: float = float("inf")

    def __repr__(self) -> str:
        return f"ExecCredential(expires_s={self.expires_s})"


class ExecCredentials:
    """Runs one user's program as needed. Safe from any thread."""

    def __init__(
        self, settings: Config, cluster: Config | None = None, clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._cluster = cluster or {}
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._last: ExecCredential | None = None

    def get(self) -> ExecCredential:
        """Raises KubeconfigError if the program gives nothing usable."""
        with self._lock:
            last = self._last
            if last is None or self._clock.now() > last.expires_s - _EARLY_S:
                last = self._last = self._run()
            return last

    def refused(self, credential: ExecCredential) -> None:
        """The server did not take it: the program is asked again."""
        with self._lock:
            if self._last is credential:
                self._last = None

    def _run(self) -> ExecCredential:
        command = str(self._settings.get("command") or "")
        found = shutil.which(command)
        if found is None:
            hint = self._settings.get("installHint")
            raise KubeconfigError(
                f"the credential plugin {command!r} is not installed"
                + (f": {hint}" if hint else "")
            )
        try:
            done = subprocess.run(
                [found, *map(str, self._settings.get("args") or ())],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KubeconfigError(f"the credential plugin {command!r} failed: {error}") from error
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()[-500:]
            raise KubeconfigError(
                f"the credential plugin {command!r} ended with {done.returncode}: {said}"
            )
        try:
            return _read(json.loads(done.stdout))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise KubeconfigError(
                f"the credential plugin {command!r} gave no ExecCredential with a token or a "
                f"certificate: run it by hand to see why ({error})"
            ) from error

    def _environment(self) -> Mapping[str, str]:
        more = {e["name"]: str(e["value"]) for e in self._settings.get("env") or ()}
        spec: dict[str, Any] = {"interactive": False}
        if self._settings.get("provideClusterInfo"):
            spec["cluster"] = self._cluster
        version = self._settings.get("apiVersion") or f"{_GROUP}/v1"
        told = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
        return dict(os.environ) | more | {"KUBERNETES_EXEC_INFO": json.dumps(told)}


def _read(answer: dict[str, Any]) -> ExecCredential:
    if not str(answer.get("apiVersion", "")).startswith(_GROUP):
        raise ValueError(f"apiVersion {answer.get('apiVersion')!r}")
    status = answer["status"]
    token = str(status.get("token") or "")
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    pair = (certificate.encode(), key.encode()) if certificate and key else None
    if not token and pair is None:
        raise ValueError("an empty status")
    expires = status.get("expirationTimestamp")
    return ExecCredential(token, pair, epoch(expires) if expires else float("inf"))


def cluster_info(cluster: Config) -> Config:
    """What a program that asks for it is told about the cluster."""
    pem: bytes | None = cluster.get("ca_pem")
    told: Config = {"server": cluster["server"]}
    if pem:
        told["certificate-authority-data"] = base64.b64encode(pem).decode()
    return told

"""The chart on a real control plane: installed by the real helm, its process run from its own spec.

Images do not run on fake nodes. So what the Deployment's pod would do is done here: `kai` with the
pod's own arguments, under a token of the chart's own service account.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object
from tests.real.control_plane import LOOPBACK, ControlPlane, part
from tests.real.programs import Program

CHART = Path(__file__).parents[3] / "helm" / "kai-ray"
NAMESPACE = "kai-scheduler"
NAME = "kai-ray"


class HelmFailed(AssertionError):
    """What helm complained of."""


class Release:
    """One release of the chart."""

    def __init__(self, plane: ControlPlane, values: Mapping[str, Any] | None = None) -> None:
        self.plane = plane
        self.webhook_port, self.health_port = plane.free_port(), plane.free_port()
        self.values: dict[str, Any] = {
            "listen": LOOPBACK,
            # A killed leader is to be followed soon.
            "leaderElection": {"duration": 4, "renew": 3, "retry": 1},
            "health": {"port": self.health_port},
            "admission": {
                "webhook": {
                    "port": self.webhook_port,
                    "url": f"https://{LOOPBACK}:{self.webhook_port}",
                }
            },
            **(values or {}),
        }
        self.state = plane.folder / f"state-{self.health_port}"
        """What the pod has as its folder of the history."""
        self._process: Program | None = None

    @property
    def process(self) -> Program | None:
        return self._process

    def helm(self, *args: str, values: bool = False) -> str:
        """What helm says. Raises HelmFailed."""
        command = [str(part("helm")), *args]
        if values:
            path = self.plane.folder / "values.json"
            path.write_text(json.dumps(self.values))
            command += ["--values", str(path)]
        home = self.plane.folder / "helm"
        env = {"KUBECONFIG": str(self.plane.kubeconfig), "HELM_CONFIG_HOME": str(home)}
        env |= {"HELM_CACHE_HOME": str(home), "HELM_DATA_HOME": str(home)}
        done = subprocess.run(
            command, env=dict(os.environ) | env, capture_output=True, text=True, timeout=120
        )
        if done.returncode:
            raise HelmFailed(f"{' '.join(args)}: {done.stderr}{done.stdout}")
        return done.stdout

    def install(self) -> str:
        return self.helm(
            "install", NAME, str(CHART), "-n", NAMESPACE, "--create-namespace", values=True
        )

    def upgrade(self) -> str:
        return self.helm("upgrade", NAME, str(CHART), "-n", NAMESPACE, values=True)

    def uninstall(self) -> str:
        return self.helm("uninstall", NAME, "-n", NAMESPACE, "--wait")

    def pod(self) -> Object:
        """The pod that the Deployment describes."""
        deployment = self.plane.port.get(kinds.DEPLOYMENT, NAME, NAMESPACE)
        return deployment["spec"]["template"]["spec"]

    def start(self) -> Program:
        """What the Deployment's pod would run; returns once it is ready."""
        spec = self.pod()
        (container,) = spec["containers"]
        command = Path(sys.executable).parent / container["command"][0]
        kubeconfig = self._kubeconfig(spec["serviceAccountName"])
        env = {e["name"]: e["value"] for e in container["env"]} | {"KUBECONFIG": str(kubeconfig)}
        args = [
            f"--state={self.state}" if a.startswith("--state=") else a for a in container["args"]
        ]
        process = self._process = self.plane.run(command, [*args, "--verbose"], name="kai", env=env)
        process.wait_until(self.ready, 60)
        return process

    def ready(self) -> bool:
        url = f"http://{LOOPBACK}:{self.health_port}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """As if its node lost power."""
        assert self._process is not None
        self._process.kill()
        self._process = None

    @property
    def log(self) -> str:
        assert self._process is not None
        return self._process.log.read_text()

    def _kubeconfig(self, account: str) -> Path:
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.plane.port.raw("POST", path, asked)["status"]["token"]
        config = json.loads(self.plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        file = self.plane.folder / "kubeconfig-chart"
        file.write_text(json.dumps(config))
        file.chmod(0o600)
        return file

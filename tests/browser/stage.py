"""A cluster in this process with its console served, as `kai up` has it; and what plays on it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object
from kai_ray.console.server import ConsoleServer
from kai_ray.manager import consoles
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKEN = "kai-for-tests"
#: The demo's nodes, with links between their GPUs; what runs goes on for a while.
DEMO = {
    "seed": 7,
    "gpuUse": {"periodSeconds": 2},
    "nodePools": [
        {
            "name": "gpu",
            "count": 4,
            "gpus": 8,
            "gpusPerNuma": 4,
            "gpusPerLink": 4,
            "topology": [
                {"label": "topology.kubernetes.io/zone", "nodes": 4, "name": "zone-{i}"},
                {"label": "cloud.provider.com/topology-rack", "nodes": 2, "name": "rack-{i}"},
            ],
            "runTime": {"kind": "constant", "meanSeconds": 3600},
        },
        {"name": "cpu", "count": 2, "cpu": 64, "memory": "256Gi"},
    ],
}


@dataclass
class Stage:
    """`cluster` runs and its console answers at `url` (with the token behind #) until `close`."""

    cluster: EmbeddedCluster
    server: ConsoleServer
    closed: bool = field(default=False)

    @property
    def origin(self) -> str:
        return self.server.url.rstrip("/")

    @property
    def url(self) -> str:
        return f"{self.origin}/#token={TOKEN}"

    def submit(self, *files: str) -> None:
        """Manifests below examples/: files or folders. What they run goes on for an hour."""
        for name in files:
            path = EXAMPLES / name
            for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
                text = re.sub(rf"({L.RUN_TIME}:).*", r"\1 1h", file.read_text())
                for obj in yaml.safe_load_all(text):
                    if obj:
                        self.create(obj)

    def play(self) -> None:
        """The demo, in an order that always fits: who comes last waits, or takes back its own."""
        self.submit("queues.yaml")
        first = {
            "trainjob": "finetune",
            "mpijob": "allreduce-w",
            "job": "evaluate",
            "raycluster": "n",
        }
        for file, pod in first.items():
            self.submit(f"workloads/{file}.yaml")
            self.until(lambda pod=pod: self.running(pod), f"{pod} runs")
        self.submit("rules/sharing")
        self.until(lambda: self.running("notebook-b"), "the card is shared")
        self.submit(*(f"workloads/{name}.yaml" for name in ("rayservice", "pytorchjob", "rayjob")))

    def create(self, obj: Object) -> Object:
        resource = R.BY_KIND[obj["apiVersion"], obj["kind"]]
        if resource.namespaced:
            obj["metadata"].setdefault("namespace", "default")
        return self.cluster.client.create(resource, obj)

    def until(self, done: Callable[[], Any], what: str, timeout_s: float = 30.0) -> None:
        end = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > end:
                raise TimeoutError(f"after {timeout_s:g} s still not: {what}")
            time.sleep(0.05)

    def running(self, name: str) -> bool:
        """Whether a pod whose name begins so runs."""
        pods = self.cluster.client.list(R.POD, "default").items
        found = [p for p in pods if p["metadata"]["name"].startswith(name)]
        return any(p["status"].get("phase") == "Running" for p in found)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.server.stop()
            self.cluster.stop()


def open_stage(description: dict[str, Any], state: Path | None = None) -> Stage:
    """In real time. `state` keeps a history as well."""
    cluster = EmbeddedCluster(ClusterConfig.of(description), state_dir=state)
    cluster.start()
    return Stage(cluster, serve(cluster))


def serve(cluster: EmbeddedCluster) -> ConsoleServer:
    console = consoles.local(
        "kai-up",
        cluster.store,
        lambda: (cluster.composition, cluster.runtime),
        "kai-admin",
        TOKEN,
        "open the address that `kai up` printed",
    )
    return ConsoleServer(console).start()

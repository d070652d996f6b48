"""A cluster in virtual time with its console on loopback, and a client that is not a browser."""

from __future__ import annotations

import copy
import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object
from kai_ray.console.app import Console
from kai_ray.console.server import ConsoleServer
from kai_ray.manager import consoles
from kai_ray.sdk import manifests
from kai_ray.sim.cluster_file import ClusterConfig, GpuModel
from kai_ray.sim.embedded import EmbeddedCluster

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKEN = "a-token-for-tests"
START_S = 1.8e9


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        return self.json["error"]


@dataclass
class Client:
    """Speaks to a console; `token` "" sends none."""

    port: int
    token: str = TOKEN
    headers: dict[str, str] = field(default_factory=dict)

    def send(
        self, method: str, path: str, body: bytes | None = None, **headers: str | None
    ) -> Answer:
        given: dict[str, str | None] = dict(self.headers)
        if self.token:
            given["Authorization"] = f"Bearer {self.token}"
        if body is not None:
            given |= {"X-Kai-Request": "1", "Content-Type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            sent = {k: v for k, v in given.items() if v is not None}
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            found = {k.lower(): v for k, v in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str | None) -> Any:
        """The answer to a question that is in order."""
        answer = self.send("GET", f"/api/v1{path}", None, **headers)
        assert answer.status == 200, answer.body
        return answer.json

    def write(self, method: str, path: str, body: Any, **headers: str | None) -> Answer:
        encoded = json.dumps(body).encode()
        return self.send(method, f"/api/v1{path}", encoded, **headers)


@dataclass
class World(Client):
    """A cluster and its console."""

    cluster: EmbeddedCluster = field(kw_only=True)
    console: Console = field(kw_only=True)

    def queue(self, name: str, parent: str = "", quota: float = 0, limit: float = -1) -> None:
        amounts = {"quota": quota, "limit": limit, "overQuotaWeight": 1}
        free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        spec: Object = {"resources": {"gpu": amounts, "cpu": free, "memory": free}}
        if parent:
            spec["parentQueue"] = parent
        self.cluster.store.create(R.QUEUE, {"metadata": {"name": name}, "spec": spec})

    def job(
        self,
        name: str,
        queue: str,
        gpus: int = 8,
        namespace: str = "default",
        pods: int = 1,
        runs_s: float = 3600,
        **labels: str,
    ) -> None:
        self.namespace(namespace)
        container: Object = {"name": "c", "image": "busybox"}
        container |= {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {}
        template = {
            "metadata": {"annotations": {"kai.scheduler/sim-run-time": f"{runs_s:g}s"}},
            "spec": {
                "schedulerName": "kai-scheduler",
                "restartPolicy": "Never",
                "containers": [container],
            },
        }
        spec = {"parallelism": pods, "completions": pods, "template": template}
        meta: Object = {"name": name, "namespace": namespace}
        meta["labels"] = {"kai.scheduler/queue": queue, **labels}
        notes = {"kai.scheduler/batch-min-member": str(pods)}
        meta["annotations"] = notes
        self.cluster.store.create(R.JOB, {"metadata": meta, "spec": spec})

    def namespace(self, name: str) -> None:
        known = {n["metadata"]["name"] for n in self.cluster.store.list(R.NAMESPACE).items}
        if name not in known:
            labels = {"kai.scheduler/managed": "true"}
            self.cluster.store.create(R.NAMESPACE, {"metadata": {"name": name, "labels": labels}})

    def run(self, seconds: float = 10) -> None:
        self.cluster.run_for(seconds)


def submit(world: World, *paths: Path) -> None:
    """Creates the objects of manifests."""
    for document in manifests.read([str(path) for path in paths]):
        obj = copy.deepcopy(document.object)
        resource = R.BY_KIND[obj["apiVersion"], obj["kind"]]
        if resource.namespaced:
            obj["metadata"].setdefault("namespace", "default")
        world.cluster.store.create(resource, obj)


@contextmanager
def world_of(shape: str = "2x8", gpu_use_s: float | None = None, **options: Any) -> Iterator[World]:
    """`gpu_use_s`: how often nodes tell what their GPUs do."""
    model = GpuModel(period_seconds=gpu_use_s)
    config = msgspec.structs.replace(ClusterConfig.short(shape), gpu_use=model)
    with ExitStack() as stack:
        clock = VirtualClock(START_S)
        cluster = stack.enter_context(EmbeddedCluster(config, clock, **options))
        console = consoles.local(
            "here",
            cluster.store,
            lambda: (cluster.composition, cluster.runtime),
            "kai-admin",
            TOKEN,
            "give the token",
        )
        server = stack.enter_context(ConsoleServer(console))
        cluster.run_for(5)
        yield World(server.port, cluster=cluster, console=console)


@pytest.fixture
def world() -> Iterator[World]:
    """Two nodes of 8 GPUs; queue `research` with `vision` (8 of its own) and `robots` (none)."""
    with world_of() as made:
        made.queue("research", quota=16)
        made.queue("vision", "research", quota=8)
        made.queue("robots", "research")
        made.run()
        yield made

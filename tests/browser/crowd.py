"""A large cluster to look at: objects as they stand in a cluster that has been busy for a day.

Nothing schedules here. Ten thousand jobs through operators, kubelets and the scheduler take
minutes; what the pages show of them does not depend on how they came about.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import SystemClock, rfc3339
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import Object, Resource
from kai_ray.cluster.runtime import Runtime
from kai_ray.console.app import LOOPBACK, Console
from kai_ray.console.cluster import Cluster
from kai_ray.console.clusters import Clusters
from kai_ray.console.server import ConsoleServer
from kai_ray.console.viewers import LocalDoor, Owner
from kai_ray.sim.cluster_file import ClusterConfig
from tests.browser.stage import TOKEN

DEPARTMENTS = ("vision", "language", "speech", "robotics", "search", "science")
TEAMS = "abcd"
PROJECTS = ("llama", "resnet", "whisper", "bert", "dino", "tune", "rank", "fold")
USERS = ("ana", "bo", "chen", "dia", "emre", "fay")
KINDS = (("batch/v1", "Job"), ("kubeflow.org/v1", "PyTorchJob"), ("ray.io/v1", "RayJob"))
#: Share of the jobs; the rest waits.
RUNNING, ENDED = 0.3, 0.42
WAITS = {
    "InsufficientGpu": "{n} nodes: not enough free GPUs; the nearest, gpu-17, lacks 2",
    "QueueLimitExceeded": "queue {q} may hold 320 GPUs and holds 319",
    "FragmentedGpu": "enough GPUs are free, but not on one node",
    "TopologyUnsatisfied": "no rack has 32 free GPUs; the nearest, rack-9, has 26",
}
_POOL = {
    "name": "gpu",
    "gpus": 8,
    "topology": [
        {"label": "topology.kubernetes.io/zone", "nodes": 256, "name": "zone-{i}"},
        {"label": "cloud.provider.com/topology-rack", "nodes": 16, "name": "rack-{i}"},
    ],
}


class Past(SystemClock):
    """Real time, or a while ago."""

    ago_s = 0.0

    def now(self) -> float:
        return super().now() - self.ago_s


class Crowd:
    """`store` holds `nodes` nodes of 8 GPUs and `jobs` jobs of departments with four teams each."""

    def __init__(self, nodes: int, jobs: int, seed: int = 11) -> None:
        self._dice = random.Random(seed)
        self._clock = Past()
        self.store = MemoryStore(self._clock)
        install_defaults(self.store)
        config = ClusterConfig.of({"nodePools": [_POOL | {"count": nodes}]})
        self._names: list[str] = []
        for node in config.nodes():
            self._trouble(node)
            self.store.create(R.NODE, node)
            self._names.append(node["metadata"]["name"])
        self._free = {name: list(range(8)) for name in self._names}
        self._use: dict[str, dict[int, Object]] = defaultdict(dict)
        self._held: dict[str, float] = defaultdict(float)
        self._asked: dict[str, float] = defaultdict(float)
        self.store.create(R.TOPOLOGY, _topology())
        for number in range(jobs):
            self._job(number)
        for queue in self._queues(nodes * 8):
            self._create(R.QUEUE, queue)
        for name in self._names:
            self._create(R.GPU_NODE_STATE, self._state(name))

    def _create(self, resource: Resource, obj: Object, ago_s: float = 0.0) -> Object:
        """With its status, as if it had been made a while ago."""
        self._clock.ago_s = ago_s
        made = self.store.create(resource, obj)
        self._clock.ago_s = 0.0
        if "status" not in obj:
            return made
        full = {**made, "status": obj["status"]}
        return self.store.update(resource, full, subresource="status")

    def _trouble(self, node: Object) -> None:
        fate = self._dice.random()
        if fate < 0.004:
            node["spec"] = {**node.get("spec", {}), "unschedulable": True}
        elif fate < 0.007:
            for condition in node["status"]["conditions"]:
                if condition["type"] == "Ready":
                    condition["status"] = "False"

    # ------------------------------------------------------------------ jobs

    def _job(self, number: int) -> None:
        dice = self._dice
        department = dice.choice(DEPARTMENTS)
        queue = f"{department}-{dice.choice(TEAMS)}"
        pods, each = dice.choices(((1, 1), (1, 2), (2, 4), (4, 8)), (10, 4, 1, 0.35))[0]
        fate = dice.random()
        state = "Succeeded" if fate < ENDED else "Waiting"
        places = self._places(pods, each) if ENDED <= fate < ENDED + RUNNING else []
        if places:
            state = "Running"
        name = f"{dice.choice(PROJECTS)}-{number}"
        age = dice.uniform(60, 86400)
        group = self._group(name, queue, pods, state)
        self._create(R.POD_GROUP, group, age)
        if state != "Succeeded":
            for key in (queue, department):
                self._asked[key] += pods * each
                self._held[key] += pods * each if places else 0
        for i in range(pods):
            node, cards = places[i] if places else ("", [])
            self._pod(f"{name}-{i}", name, each, state, age, node, cards)

    def _places(self, pods: int, each: int) -> list[tuple[str, list[int]]]:
        """Nodes with room side by side, or nothing."""
        start = self._dice.randrange(len(self._names))
        found: list[tuple[str, list[int]]] = []
        for step in range(min(60, len(self._names))):
            name = self._names[(start + step) % len(self._names)]
            if len(self._free[name]) >= each:
                found.append((name, self._free[name][:each]))
                if len(found) == pods:
                    for node, cards in found:
                        self._free[node] = [c for c in self._free[node] if c not in cards]
                    return found
        return []

    def _group(self, name: str, queue: str, pods: int, state: str) -> Object:
        api_version, kind = self._dice.choice(KINDS)
        group, _, version = api_version.rpartition("/")
        top = f"name: {name}\ngroup: {group}\nversion: {version}\nkind: {kind}"
        conditions: list[Object] = []
        if state == "Waiting":
            reason = self._dice.choices(tuple(WAITS), (6, 3, 1, 1))[0]
            message = WAITS[reason].format(n=len(self._names), q=queue)
            conditions = [_condition("Scheduled", "False", reason, message)]
        return {
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {L.QUEUE: queue, L.USER: self._dice.choice(USERS)},
                "annotations": {L.TOP_OWNER_METADATA: top},
            },
            "spec": {"queue": queue, "minMember": pods},
            "status": {"conditions": conditions},
        }

    def _pod(
        self, name: str, gang: str, gpus: int, state: str, age: float, node: str, cards: list[int]
    ) -> None:
        limits = {"cpu": "4", "memory": "16Gi", L.NVIDIA_GPU: str(gpus)}
        phase = {"Waiting": "Pending"}.get(state, state)
        status: Object = {"phase": phase}
        if state == "Running":
            started = self._ago(age * self._dice.random())
            status |= {"startTime": started, "conditions": [{"type": "Ready", "status": "True"}]}
        pod = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": {L.POD_GROUP: gang},
            },
            "spec": {
                "schedulerName": L.SCHEDULER_NAME,
                "containers": [{"name": "main", "image": "i", "resources": {"limits": limits}}],
                **({"nodeName": node} if node else {}),
            },
        }
        if state != "Waiting":
            pod["status"] = status
        made = self._create(R.POD, pod, age)
        busy = self._dice.betavariate(5, 1.6)
        for card in cards:
            self._use[node][card] = {"uid": made["metadata"]["uid"], "pod": name, "busy": busy}

    def _ago(self, seconds: float) -> str:
        return rfc3339(self._clock.now() - seconds)

    # ------------------------------------------------------------------ queues, use

    def _queues(self, gpus: int) -> Iterator[Object]:
        part = gpus // len(DEPARTMENTS)
        for department in DEPARTMENTS:
            yield self._queue(department, "", part)
            for team in TEAMS:
                yield self._queue(f"{department}-{team}", department, part // len(TEAMS))

    def _queue(self, name: str, parent: str, quota: int) -> Object:
        free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        spec: Object = {
            "resources": {"gpu": free | {"quota": quota}, "cpu": free, "memory": free},
            **({"parentQueue": parent} if parent else {}),
        }
        held, asked = self._held[name], self._asked[name]
        status = {
            "allocated": {L.NVIDIA_GPU: f"{held:g}"},
            "requested": {L.NVIDIA_GPU: f"{asked:g}"},
            "fairShare": {"gpu": f"{min(asked, quota * 1.04):g}"},
        }
        return {"metadata": {"name": name}, "spec": spec, "status": status}

    def _state(self, node: str) -> Object:
        devices: list[Object] = []
        for index in range(8):
            held = self._use[node].get(index)
            used = int(held["busy"] * 70000) if held else 4
            device: dict[str, Any] = {
                "uuid": f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{node}-{index}')}",
                "index": index,
                "model": "NVIDIA-H100-80GB-HBM3",
                "memoryMiB": 81559,
                "usedMiB": used,
                "utilization": round(held["busy"], 3) if held else 0.0,
                "healthy": self._dice.random() > 0.002,
                "numaNode": index // 4,
                "links": [i for i in range(index // 4 * 4, index // 4 * 4 + 4) if i != index],
                "pods": [held["uid"]] if held else [],
                "processes": [],
            }
            if not device["healthy"]:
                device["problem"] = "XID 79: the GPU has fallen off the bus"
            devices.append(device)
        status = {
            "observedAt": self._ago(self._dice.uniform(1, 20)),
            "periodSeconds": 30,
            "source": "nvml",
            "driver": "580.65.06",
            "devices": devices,
        }
        return {"metadata": {"name": node}, "status": status}


def serve(crowd: Crowd, stop: ExitStack, *beside: Cluster) -> ConsoleServer:
    """A console over caches of its own, as `kai console` has them; other clusters beside it."""
    runtime = Runtime(crowd.store, SystemClock())
    cluster = Cluster("large", lambda: runtime, crowd.store)
    cluster.health()  # names what is to be watched
    thread = threading.Thread(target=runtime.run_forever, name="kai-crowd", daemon=True)
    thread.start()
    while not cluster.health()[0].ok:
        time.sleep(0.05)
    door = LocalDoor(TOKEN, Owner("kai-admin", crowd.store), "open the printed address")
    server = ConsoleServer(Console(Clusters([cluster, *beside]), door, LOOPBACK)).start()
    stop.callback(thread.join, 10)
    stop.callback(runtime.stop)
    stop.callback(server.stop)
    return server


def _condition(kind: str, status: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _topology() -> Object:
    levels = [
        {"nodeLabel": "topology.kubernetes.io/zone", "alias": "zone"},
        {"nodeLabel": "cloud.provider.com/topology-rack", "alias": "rack"},
        {"nodeLabel": "kubernetes.io/hostname", "alias": "host"},
    ]
    return {"metadata": {"name": "cluster"}, "spec": {"levels": levels}}

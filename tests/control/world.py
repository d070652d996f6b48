"""A small world for tests of controllers: store, virtual clock, loop; pods are made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import Port
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.compose import Control, compose
from kai_ray.controllers.config import ControlConfig
from kai_ray.encode import MemberOf

from . import objects

FAST = ControlConfig(period_s=0.05)


class World:
    """`wrap` may put faults between the controllers and the store."""

    def __init__(
        self,
        nodes: int = 2,
        gpus: int = 8,
        config: ControlConfig = FAST,
        wrap: Callable[[Port], Port] = lambda port: port,
        admission: tuple[Any, ...] = (),
        member_of: MemberOf | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock, admission, seed=1)
        install_defaults(self.store)
        for i in range(nodes):
            self.store.create(kinds.NODE, objects.node(f"node-{i}", gpus))
        self.config = config
        self.wrap = wrap
        self.member_of = member_of
        self.boot()

    def boot(self) -> None:
        """Starts the controllers anew, as after a crash: nothing but the store remains."""
        self.runtime = Runtime(self.wrap(self.store), self.clock)
        self.control: Control = compose(self.config, self.member_of)
        for controller in self.control.controllers():
            self.runtime.add(controller)

    def run(self, seconds: float = 1.0) -> None:
        self.runtime.run_until(lambda: False, seconds)

    def until(self, done: Callable[[], bool], seconds: float = 60.0) -> bool:
        return self.runtime.run_until(done, seconds)

    def queue(self, name: str, parent: str = "", **spec: Any) -> None:
        self.store.create(kinds.QUEUE, objects.queue(name, parent, **spec))

    def gang(
        self, name: str, pods: int, queue: str = "default-queue", *, gpus: int = 1, **spec: Any
    ) -> None:
        """A PodGroup whose minimum is all of its pods, and the pods."""
        minimum = spec.pop("minimum", pods)
        self.store.create(kinds.POD_GROUP, objects.podgroup(name, queue, minimum, **spec))
        for i in range(pods):
            self.store.create(kinds.POD, objects.pod(f"{name}-{i:02d}", name, gpus=gpus))

    def pods(self, prefix: str = "") -> list[dict[str, Any]]:
        found = self.store.list(kinds.POD, "default").items
        return [p for p in found if p["metadata"]["name"].startswith(prefix)]

    def placed(self, prefix: str = "") -> dict[str, str]:
        """Pods that have a node, and which."""
        return {
            p["metadata"]["name"]: p["spec"]["nodeName"]
            for p in self.pods(prefix)
            if p["spec"].get("nodeName")
        }

    def group(self, name: str, namespace: str = "default") -> dict[str, Any]:
        return self.store.get(kinds.POD_GROUP, name, namespace)

    def condition(self, name: str, kind: str = "Scheduled") -> dict[str, Any]:
        conditions = self.group(name).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    def events(self, name: str) -> list[tuple[str, str]]:
        found = self.store.list(kinds.EVENT).items
        return [(e["reason"], e["message"]) for e in found if e["involvedObject"]["name"] == name]

    def writes(self) -> int:
        return int(self.store.version)

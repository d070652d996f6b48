"""Schedulers, a device plugin and a judge on one store under a virtual clock, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import Object, Port
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.compose import Control, compose
from kai_ray.controllers.config import ControlConfig
from tests.control import objects
from tests.real.sharing.device_plugin import DevicePlugin
from tests.real.sharing.judge import Judge, uses, verdict

CARD = 80_000
FAST = ControlConfig(period_s=0.05)


class Stage:
    """Nodes of `gpus` cards of 80 GB each. Schedulers come and go; plugin and judge stay."""

    def __init__(self, nodes: int = 1, gpus: int = 2, **plugin: Any) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock, (), seed=1)
        install_defaults(self.store)
        for i in range(nodes):
            labels = {"nvidia.com/gpu.memory": str(CARD)}
            self.store.create(r.NODE, objects.node(f"node-{i}", gpus, labels=labels))
        self.plugin = DevicePlugin(kubelet=True, **plugin)
        self.judge = Judge(CARD)
        self._around = Runtime(self.store, self.clock)
        self._around.add(self.plugin)
        self._around.add(self.judge)
        self._schedulers: list[Runtime] = []

    def scheduler(
        self, port: Port | None = None, config: ControlConfig = FAST
    ) -> tuple[Runtime, Control]:
        runtime, control = Runtime(port or self.store, self.clock), compose(config)
        for controller in control.controllers():
            runtime.add(controller)
        self._schedulers.append(runtime)
        return runtime, control

    def kill(self, runtime: Runtime) -> None:
        """Nothing but the store remembers it."""
        self._schedulers.remove(runtime)

    def run(self, seconds: float, only: Runtime | None = None) -> None:
        """Everybody in turn until the clock has moved; `only` one scheduler, if it is given."""
        self.until(lambda: False, seconds, only)

    def until(
        self, done: Callable[[], bool], seconds: float = 60.0, only: Runtime | None = None
    ) -> bool:
        end = self.clock.now() + seconds
        while True:
            loops = [only] if only is not None else list(self._schedulers)
            due = [loop.run_once() for loop in (*loops, self._around)]
            if done():
                return True
            if self.clock.now() >= end:
                return False
            following = min((d for d in due if d is not None), default=end)
            self.clock.advance_to(min(max(following, self.clock.now() + 0.001), end))

    # ------------------------------------------------------------------ pods

    def pod(self, name: str, fraction: str = "", **more: Any) -> Object:
        """A pod that shares, in a gang of its own."""
        annotations = {k.replace("_", "-"): v for k, v in more.pop("notes", {}).items()}
        if fraction:
            annotations["gpu-fraction"] = fraction
        gang = more.pop("gang", name)
        if gang == name:
            self.store.create(r.POD_GROUP, objects.podgroup(name, "default-queue"))
        made = objects.pod(name, gang, gpus=more.pop("gpus", 0), **more)
        made["metadata"]["annotations"] |= annotations
        return self.store.create(r.POD, made)

    def pods(self, *names: str, fraction: str = "0.5") -> None:
        for name in names:
            self.pod(name, fraction)

    def delete(self, name: str, namespace: str = "default") -> None:
        self.store.delete(r.POD, name, namespace)

    def placed(self) -> dict[str, tuple[str, ...]]:
        """Pods that have a node and run, and their devices."""
        found = self.store.list(r.POD, "default").items
        return {
            p["metadata"]["name"]: tuple(_devices(p))
            for p in found
            if p["spec"].get("nodeName") and p["status"]["phase"] == "Running"
        }

    def keepers(self) -> list[Object]:
        return self.store.list(r.POD, "kai-resource-reservation").items

    def sharers(self) -> list[Object]:
        return [p for p in self.store.list(r.POD, "default").items if uses(p)]

    def events(self, name: str) -> dict[str, str]:
        found = self.store.list(r.EVENT).items
        return {e["reason"]: e["message"] for e in found if e["involvedObject"]["name"] == name}

    def wrong(self) -> list[str]:
        """What must never be: seen on the way, or there now."""
        return [*self.judge.wrong, *verdict(self.store, self.plugin, self.plugin.nodes)]


def _devices(pod: Object) -> list[str]:
    text = (pod["metadata"].get("annotations") or {}).get("kai.scheduler/gpu-devices") or ""
    return text.split(",") if text else []

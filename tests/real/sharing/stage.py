"""One cluster for these stories, whatever is behind it: nodes, a device plugin, a judge, and as
many live schedulers as a story wants, each with all controllers, in a thread of its own.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import SystemClock
from kai_ray.cluster.defaults import install_queues
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import Object, Port, Write
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers import ControlConfig
from kai_ray.encode import EncodeConfig
from kai_ray.manager import COMPONENTS, Manager, ManagerConfig
from kai_ray.manager.install import install_definitions
from kai_ray.podgrouper.workload import Settings
from tests.control import objects
from tests.real.control_plane import ControlPlane
from tests.real.sharing.device_plugin import DevicePlugin
from tests.real.sharing.judge import Judge, devices_of, uses, verdict

CARD = 80_000
_LABELS = {"nvidia.com/gpu.memory": str(CARD)}
_NUMBERS = itertools.count(1)


class Stage:
    """`wrong` must stay empty. Pods of a story are in `namespace`."""

    port: Port
    namespace: str
    name = ""

    def __init__(self, *, kubelet: bool) -> None:
        self.scheduler_name = f"kai-sharing-{next(_NUMBERS)}"
        self.plugin = DevicePlugin(kubelet=kubelet)
        self.judge = Judge(CARD)
        self._managers: list[Manager] = []
        self._nodes: list[str] = []
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Stage:
        self._around = Runtime(self.port, SystemClock())
        self._around.add(self.plugin)
        self._around.add(self.judge)
        self._thread = threading.Thread(target=self._around.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        for manager in list(self._managers):
            self.stop(manager)
        self._around.stop()
        if self._thread is not None:
            self._thread.join(timeout=10)
        self._around.close()

    # ------------------------------------------------------------------ who takes part

    def own_port(self) -> Port:
        """A connection of a scheduler's own."""
        return self.port

    def nodes(self, count: int, gpus: int, **labels: str) -> None:
        raise NotImplementedError

    def schedulers(self, count: int = 1, *components: str) -> list[Manager]:
        """Processes with all components, or with these."""
        names = (self.scheduler_name,)
        control = ControlConfig(encode=EncodeConfig(scheduler_names=names), period_s=0.05)
        config = ManagerConfig(
            control=control,
            podgrouper=Settings(scheduler_names=names),
            components=components or COMPONENTS,
        )
        made = [Manager(self.own_port(), config=config) for _ in range(count)]
        for manager in made:
            manager.start()
        self._managers += made
        return made

    def stop(self, manager: Manager) -> None:
        self._managers.remove(manager)
        manager.stop()

    # ------------------------------------------------------------------ pods

    def pods(self, names: Sequence[str], fraction: str = "0.5", **notes: str) -> None:
        """All at once, as many hands as the connection has."""
        made = [self._pod(name, fraction, notes) for name in names]
        outcomes = self.port.batch([Write(self.port.create, (r.POD, pod)) for pod in made])
        failed = [o for o in outcomes if isinstance(o, Exception)]
        assert not failed, failed[0]

    def _pod(self, name: str, fraction: str, notes: dict[str, str]) -> Object:
        made = objects.pod(name, gpus=0, cpu="10m", namespace=self.namespace)
        made["spec"]["schedulerName"] = self.scheduler_name
        made["spec"]["terminationGracePeriodSeconds"] = 0
        annotations = {k.replace("_", "-"): v for k, v in notes.items()}
        if fraction:
            annotations["gpu-fraction"] = fraction
        meta = {"name": name, "namespace": self.namespace, "annotations": annotations}
        return {"metadata": meta, "spec": made["spec"]}

    def delete(self, *names: str) -> None:
        for name in names:
            self.port.delete(r.POD, name, self.namespace)

    def all_pods(self) -> list[Object]:
        """As the judge knows them: asking the server each time would slow it down."""
        return self._around.informer(r.POD).list(self.namespace)

    def placed(self) -> dict[str, list[str]]:
        """Pods that run on parts of cards, and their devices."""
        running = [p for p in self.all_pods() if uses(p) and _phase(p) == "Running"]
        return {p["metadata"]["name"]: devices_of(p) for p in running}

    def keepers(self) -> list[Object]:
        found = self._around.informer(r.POD).list("kai-resource-reservation")
        return [p for p in found if p["spec"].get("nodeName") in self._nodes]

    # ------------------------------------------------------------------ what comes of it

    def until(self, done: Callable[[], Any], seconds: float = 30.0) -> bool:
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True

    def wrong(self) -> list[str]:
        return [*self.judge.wrong, *verdict(self.port, self.plugin, self._nodes)]

    def settles(self) -> list[str]:
        """What is wrong once the cluster has come to rest."""
        self.until(lambda: not self.wrong(), 15)
        return self.wrong()


def _phase(pod: Object) -> str:
    return (pod.get("status") or {}).get("phase") or "Pending"


class MemoryStage(Stage):
    def __init__(self) -> None:
        super().__init__(kubelet=True)
        store = MemoryStore(SystemClock(), ())
        install_defaults(store)
        self.port, self.namespace = store, "default"

    def nodes(self, count: int, gpus: int, **labels: str) -> None:
        for i in range(count):
            node = objects.node(f"sharing-{i}", gpus, labels=_LABELS | labels)
            self.port.create(r.NODE, node)
            self._nodes.append(node["metadata"]["name"])


class RealStage(Stage):
    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(kubelet=False)
        self._plane = plane
        self._ports: list[Any] = []
        self.port = plane.port
        self.namespace = plane.namespace("sharing")
        install_definitions(plane.port)
        install_queues(plane.port)

    def own_port(self) -> Port:
        self._ports.append(KubePort(self._plane.port.connection, lean=True))
        return self._ports[-1]

    def nodes(self, count: int, gpus: int, **labels: str) -> None:
        # Pods of the story before may still be on its nodes: these have other names.
        prefix = self.scheduler_name
        made = self._plane.gpu_nodes(count, gpus=gpus, prefix=prefix, labels=_LABELS | labels)
        self._nodes += made

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        for keeper in self.keepers():
            meta = keeper["metadata"]
            self.port.delete(r.POD, meta["name"], meta["namespace"], grace_s=0)
        self.port.delete(r.NAMESPACE, self.namespace)
        self._plane.remove_nodes(self._nodes)
        for port in self._ports:
            port.close()

"""A whole cluster in one process: API server, nodes, operators, podgrouper, scheduler, binder."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kai_ray.admission import default_admission
from kai_ray.admission.workloads import WorkloadAdmission
from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import Clock, SystemClock, VirtualClock
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import Admission, AlreadyExists, Object, Port
from kai_ray.cluster.runtime import Controller, Runtime
from kai_ray.controllers import ControlConfig
from kai_ray.controllers.drainer import Drainer
from kai_ray.encode import EncodeConfig
from kai_ray.manager.composition import Composition
from kai_ray.manager.config import ManagerConfig
from kai_ray.podgrouper.controller import Podgrouper
from kai_ray.podgrouper.workload import Settings
from kai_ray.sight.notify import NotifyConfig

from . import operators
from .cluster_file import ClusterConfig
from .device_slices import device_classes, slices
from .gpu_model import GpuModel
from .kubelet import Kubelet
from .node_health import NodeHealth
from .taint_eviction import TaintEviction

if TYPE_CHECKING:
    from kai_ray.cluster.rest import RestServer

STATE_FILE = "state.sqlite"


class EmbeddedCluster:
    """Composes the parts on one loop, in real time (`start`) or in virtual time (`run_until`).

    `state_dir` keeps all objects in a file that survives a kill. `scheduling` False leaves out the
    podgrouper, the scheduler and the binder: the API server with nodes and operators only.
    `drainer` asks Ray to empty workers before they go; simulated heads have no Ray to ask.
    `history` is the file that keeps what happened, where there is no `state_dir` for it.
    """

    def __init__(
        self,
        config: ClusterConfig,
        clock: Clock | None = None,
        state_dir: str | Path | None = None,
        *,
        scheduling: bool = True,
        extra: Sequence[Controller] = (),
        drainer: Drainer | None = None,
        notify: NotifyConfig | None = None,
        history: str | Path | None = None,
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        path = None
        if state_dir is not None:
            Path(state_dir).mkdir(parents=True, exist_ok=True)
            path = Path(state_dir) / STATE_FILE
        seed = config.seed if isinstance(self.clock, VirtualClock) else None
        encode = EncodeConfig(scheduler_names=config.scheduler_names, seed=config.seed)
        folder = Path(state_dir) if state_dir is not None else None
        manager = _manager(config, encode, folder, drainer)
        if notify is not None:
            manager = dataclasses.replace(manager, notify=notify)
        if history is not None:
            manager = dataclasses.replace(manager, history=Path(history))
        self.composition = Composition(manager)
        self.podgrouper = self.composition.podgrouper
        self.control = self.composition.control
        self.shards = self.composition.shards
        plugins = _plugins(encode, self.podgrouper) if scheduling else []
        self.store = MemoryStore(self.clock, plugins, path, seed=seed)
        self.runtime = Runtime(self.store, self.clock)
        self._thread: threading.Thread | None = None
        self._server: RestServer | None = None
        install_defaults(self.store)
        self._install()
        self.kubelet = Kubelet(config)
        self.operators = operators.build(config, self.control.events.warn)
        ours = self.composition.controllers() if scheduling else []
        self.controllers: list[Controller] = [
            NodeHealth(config),
            self.kubelet,
            GpuModel(config, self.kubelet),
            TaintEviction(config),
            *self.operators,
            *(ours or [self.control.events]),
            *extra,
        ]
        for controller in self.controllers:
            self.runtime.add(controller)

    @property
    def refusals(self) -> list[str]:
        """What the stand-in operators could not read or create."""
        return [text for operator in self.operators for text in operator.refusals]

    @property
    def client(self) -> Port:
        """The world as a user of this process sees it."""
        return self.store

    def _install(self) -> None:
        for name in self.config.managed_namespaces:
            self._add(R.NAMESPACE, {"metadata": {"name": name, "labels": _managed()}})
        for node in self.config.nodes():
            self._add(R.NODE, node)
        for found in device_classes(self.config):
            self._add(R.DEVICE_CLASS, found)
        for found in slices(self.config):
            self._add(R.RESOURCE_SLICE, found)
        for shard in self.config.shards:
            self._add(R.SCHEDULING_SHARD, {"metadata": {"name": shard.name}, "spec": shard.spec})

    def _add(self, resource, obj: Object) -> None:
        try:
            self.store.create(resource, obj)
        except AlreadyExists:
            return

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Runs the loop in a thread of its own (real time only)."""
        if isinstance(self.clock, VirtualClock):
            raise ValueError("a virtual clock has nothing to wait for: use run_until")
        if self._thread is None:
            self._thread = threading.Thread(
                target=self.runtime.run_forever, name="kai", daemon=True
            )
            self._thread.start()

    def serve(self, port: int = 0, folder: str | Path | None = None) -> RestServer:
        """The API over HTTP on loopback, until `stop`. `folder` keeps token and certificate."""
        from kai_ray.cluster.rest import RestServer

        if self._server is None:
            self._server = RestServer(self.store, port=port, folder=folder)
            self._server.start()
        return self._server

    def run_until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Runs (or, once started, waits) until `done()`; False after `timeout_s` of its clock."""
        if self._thread is None:
            return self.runtime.run_until(done, timeout_s)
        end = self.clock.now() + timeout_s
        while not done():
            if self.clock.now() >= end:
                return False
            time.sleep(0.02)
        return True

    def run_for(self, seconds: float) -> None:
        self.run_until(lambda: False, seconds)

    def stop(self) -> None:
        """Ends the server and the loop, then closes the store. May be called twice."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        self.runtime.stop()
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None
        self.runtime.close()
        self.composition.close()
        self.store.close()

    def __enter__(self) -> EmbeddedCluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def _plugins(encode: EncodeConfig, podgrouper: Podgrouper) -> list[Admission]:
    warner = WorkloadAdmission(podgrouper.settings, lambda port: port.list(R.NODE).items)
    return [*default_admission(encode, podgrouper.member_of), warner]


def _managed() -> dict[str, str]:
    return {L.MANAGED_NAMESPACE: "true"}


def _manager(
    config: ClusterConfig, encode: EncodeConfig, folder: Path | None, drainer: Drainer | None
) -> ManagerConfig:
    control = ControlConfig(
        encode=encode,
        period_s=config.cycle_seconds,
        bind_requests=config.bind_requests,
        drainer=drainer,
    )
    settings = Settings(scheduler_names=config.scheduler_names)
    return ManagerConfig(control=control, podgrouper=settings, state=folder)

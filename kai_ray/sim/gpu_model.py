"""What simulated GPUs would tell of themselves: the same objects as a node agent writes.

How busy a pod keeps its GPUs: `kai.scheduler/sim-gpu-use` on it or on its owners, such as "90%" or
"90% for 10m, 0%"; else drawn by its workload type. `kai.scheduler/sim-bad-gpus: "3"` on a Node has
its GPU 3 fail. A node that is down says nothing.
"""

from __future__ import annotations

import logging

from kai_ray.api import labels as L
from kai_ray.api.gpu_state import GpuDevice, GPUNodeStatus, GpuProcess
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock, epoch, rfc3339
from kai_ray.cluster.port import ApiError, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.gpu.publish import Publisher

from . import pod_facts
from .cluster_file import ClusterConfig, NodePool
from .kubelet import Kubelet
from .node_health import is_down
from .run_model import unit_draw
from .work import Work

log = logging.getLogger(__name__)

_SMALL_NODES, _SMALL_S, _LARGE_S = 64, 10.0, 30.0
#: Part of its GPUs that a pod keeps busy where it does not say: from, to.
_BUSY = {"train": (0.7, 0.98), "build": (0.02, 0.35), "inference": (0.15, 0.6)}
_TYPES = {"interactive": "build", "interactive-preemptible": "build", "build-preemptible": "build"}
_DRIFT_S, _DRIFT = 300.0, 0.06
_IDLE_WATTS, _FULL_WATTS = 70, 700
_LOST = "XID 79: the GPU has fallen off the bus (simulated)"

#: (part, seconds it lasts; inf for the last one)
Phases = tuple[tuple[float, float], ...]


class GpuModel:
    """Keys: names of simulated nodes with GPUs."""

    name = "gpu-model"

    def __init__(self, config: ClusterConfig, kubelet: Kubelet) -> None:
        self._config = config
        self._kubelet = kubelet
        self._pools = {pool.name: pool for pool in config.node_pools if pool.gpus}
        self._work = Work(config.seed)
        self._read: dict[str, Phases | None] = {}

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._work.setup(runtime)
        self._publisher = Publisher(runtime.port)
        self._period_s = period_s(self._config, isinstance(runtime.clock, VirtualClock))
        self._nodes = runtime.informer(R.NODE)
        self._states = runtime.informer(R.GPU_NODE_STATE)
        if self._period_s:
            self._nodes.on_change(self._node_changed)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._publisher.forget(old["metadata"]["name"])
        elif old is None and self._pool(new) is not None:
            self._runtime.enqueue(self.name, new["metadata"]["name"])

    def _pool(self, node: Object) -> NodePool | None:
        return self._pools.get((node["metadata"].get("labels") or {}).get(L.SIM_POOL, ""))

    def reconcile(self, key: str) -> float | None:
        node = self._nodes.get(key)
        pool = self._pool(node) if node is not None else None
        if node is None or pool is None:
            return None
        if not is_down(node):
            now = self._runtime.clock.now()
            try:
                made = self._publisher.publish(
                    key, self._status(node, pool, now), now, node["metadata"].get("uid") or ""
                )
            except ApiError as error:
                log.warning("the GPUs of node %s are not told: %s", key, error)
            else:
                if made is not None:
                    self._states.remember(made)
        return self._period_s

    # ------------------------------------------------------------------ one node

    def _status(self, node: Object, pool: NodePool, now: float) -> GPUNodeStatus:
        name = node["metadata"]["name"]
        memory = pod_facts.card_mib(node)
        devices = [_device(pool, name, i, memory) for i in range(pool.gpus)]
        for pod, held in self._kubelet.gpus_of(name):
            busy = self.busy(pod, now)
            for index in held:
                if index < len(devices):
                    self._run_on(devices[index], pod, busy, memory)
        for index in _bad(node):
            if index < len(devices):
                _fail(devices[index])
        for device in devices:
            running = device.processes or []
            parts = [p.utilization or 0.0 for p in running]
            if device.healthy:
                device.utilization = round(min(1.0, sum(parts)), 3)
                device.used_mib = min(memory, sum(p.used_mib or 0 for p in running))
                span = _FULL_WATTS - _IDLE_WATTS
                device.power_watts = round(_IDLE_WATTS + span * device.utilization)
        return GPUNodeStatus(
            observed_at=rfc3339(now),
            period_seconds=self._period_s,
            source="simulated",
            driver="simulated",
            devices=devices,
        )

    def _run_on(self, device: GpuDevice, pod: Object, busy: float, memory: int) -> None:
        meta = pod["metadata"]
        assert device.pods is not None
        device.pods.append(meta["uid"])
        if busy <= 0:
            return  # it never opened the device
        shares = pod_facts.shares(pod, memory)
        room = next(iter(shares.values()), memory)
        used = 0.3 + 0.6 * unit_draw(self._config.seed, "gpu-memory", meta["uid"])
        assert device.processes is not None
        device.processes.append(
            GpuProcess(
                meta["namespace"],
                meta["name"],
                meta["uid"],
                pod["spec"]["containers"][0]["name"],
                int(room * used),
                round(busy * room / memory if shares else busy, 3),
            )
        )

    def busy(self, pod: Object, now: float) -> float:
        """The part of the time that the pod keeps each of its GPUs busy."""
        phases = self._phases(self._work.annotated(pod, L.SIM_GPU_USE))
        if phases is not None:
            return at(phases, now - _started(pod, now))
        meta = pod["metadata"]
        low, high = _BUSY[_type_of(pod)]
        group = (meta.get("annotations") or {}).get(L.POD_GROUP) or meta["name"]
        level = low + (high - low) * unit_draw(self._config.seed, "gpu-use", group)
        drift = unit_draw(self._config.seed, "drift", meta["uid"], int(now // _DRIFT_S)) - 0.5
        return min(1.0, max(0.0, level + _DRIFT * drift))

    def _phases(self, text: str | None) -> Phases | None:
        if text is None:
            return None
        if text not in self._read:
            try:
                self._read[text] = phases_of(text)
            except ValueError as error:
                log.warning("annotation %s: %s", L.SIM_GPU_USE, error)
                self._read[text] = None
        return self._read[text]


def period_s(config: ClusterConfig, virtual: bool) -> float:
    """Seconds between two looks at a node; 0: none is ever taken."""
    stated = config.gpu_use.period_seconds
    if stated is not None:
        return stated
    if virtual:
        return 0.0
    small = sum(pool.count for pool in config.node_pools) <= _SMALL_NODES
    return _SMALL_S if small else _LARGE_S


def phases_of(text: str) -> Phases:
    """ "90% for 10m, 0%": the last part lasts. Raises ValueError."""
    found: list[tuple[float, float]] = []
    for part in text.split(","):
        level, _, span = part.strip().partition(" for ")
        if not level.endswith("%"):
            raise ValueError(f"{text!r}: write for example 90% or 90% for 10m, 0%")
        value = float(level.removesuffix("%")) / 100
        if not 0 <= value <= 1:
            raise ValueError(f"{text!r}: a level is from 0% to 100%")
        found.append((value, pod_facts.duration_s(span) if span else pod_facts.NEVER))
    return tuple(found)


def at(phases: Phases, passed_s: float) -> float:
    """The level after so long."""
    for level, span in phases:
        if passed_s < span:
            return level
        passed_s -= span
    return phases[-1][0]


def _device(pool: NodePool, node: str, index: int, memory: int) -> GpuDevice:
    links: list[int] = []
    if pool.gpus_per_link:
        first = index - index % pool.gpus_per_link
        links = [i for i in range(first, min(first + pool.gpus_per_link, pool.gpus)) if i != index]
    return GpuDevice(
        uuid=f"GPU-{node}-{index}",
        index=index,
        model=pool.model,
        memory_mib=memory,
        used_mib=0,
        utilization=0.0,
        power_watts=_IDLE_WATTS,
        numa_node=index // pool.gpus_per_numa if pool.gpus_per_numa else None,
        links=links,
        pods=[],
        processes=[],
    )


def _fail(device: GpuDevice) -> None:
    """A device that is gone tells nothing more."""
    device.healthy, device.problem = False, _LOST
    device.utilization = device.used_mib = device.power_watts = None
    device.processes = None


def _bad(node: Object) -> list[int]:
    text = (node["metadata"].get("annotations") or {}).get(L.SIM_BAD_GPUS) or ""
    return [int(part) for part in text.split(",") if part.strip().isdigit()]


def _type_of(pod: Object) -> str:
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    stated = labels.get(L.WORKLOAD_TYPE) or labels.get(L.PRIORITY_CLASS)
    found = _TYPES.get(stated or "", stated or "")
    return found if found in _BUSY else "train"


def _started(pod: Object, now: float) -> float:
    text = (pod.get("status") or {}).get("startTime")
    return epoch(text) if text else now

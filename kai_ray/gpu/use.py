"""Who uses which GPUs and how well: GPUNodeStates by pod, kept up as their changes come in.

What a pod uses of a device, in this order: the device's own figure where the pod has it alone; what
the driver says of the pod's processes; else the device's figure, which is the most that it can be.
A pod that is on no device of its node uses nothing, if all that runs there is known by name and
was told since the pod started; a MIG instance without a process does nothing, and of one with a
process the driver gives no figure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import epoch, rfc3339
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.gpu import held
from kai_ray.gpu.node_use import DeviceUse, NodeUse, read

#: What is heard of this much later than it is said to have been seen was seen by a wrong clock.
_LATE_S = 60.0
_TOO_EARLY = "node {} has not told of its GPUs since the job started there"
#: An agent writes at least every two minutes: after this long, nothing is known any more.
STALE_S = 300.0


class PodUse(NamedTuple):
    """GPUs in devices, parts included; `used` of `known`, both parts of `held`."""

    held: float
    known: float  # of those, how much it is known what they do
    used: float  # device-time that is used on those
    used_mib: int | None
    problem: str = ""  # why not all is known
    observed_s: float = 0.0

    @property
    def utilization(self) -> float | None:
        """Mean over all GPUs held; None unless all of them are known."""
        if self.held <= 0 or self.known < self.held - 1e-6:
            return None
        return min(self.used / self.held, 1.0)


class GpuUse:
    """No controller: it only reads. `setup` may be called by each of its users."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeUse] = {}
        self._of_pod: dict[str, tuple[str, tuple[DeviceUse, ...]]] = {}  # uid -> node, devices
        self._heard: dict[str, float] = {}  # node -> when its agent was seen to write
        self._runtime: Runtime | None = None
        self.version = 0

    @classmethod
    def of(cls, states: Iterable[Object]) -> GpuUse:
        """Of objects that were read once."""
        made = cls()
        for state in states:
            made._take(state["metadata"]["name"], state)
        return made

    def setup(self, runtime: Runtime) -> None:
        if self._runtime is None:
            self._runtime = runtime
            runtime.informer(kinds.GPU_NODE_STATE).on_change(self._seen)

    def _seen(self, old: Object | None, new: Object | None) -> None:
        assert self._runtime is not None
        obj = new if new is not None else old
        assert obj is not None
        name = obj["metadata"]["name"]
        if new is None:
            self._heard.pop(name, None)
        elif old is not None:
            self._heard[name] = self._runtime.clock.now()
        self._take(name, new)

    def _take(self, name: str, state: Object | None) -> None:
        """A node's state in the place of the last one."""
        self.version += 1
        before = self.nodes.pop(name, None)
        for device in before.devices if before is not None else ():
            for uid in device.holders:
                if self._of_pod.get(uid, ("",))[0] == name:
                    del self._of_pod[uid]
        if state is None:
            return
        found = self.nodes[name] = read(state)
        by_pod: dict[str, list[DeviceUse]] = {}
        for device in found.devices:
            for uid in device.holders:
                by_pod.setdefault(uid, []).append(device)
        for uid, devices in by_pod.items():
            self._of_pod[uid] = (name, tuple(devices))

    # ------------------------------------------------------------------ nodes

    def stale(self, name: str, now_s: float) -> str:
        """Why nothing is known of a node now; "" where its figures are fresh."""
        node = self.nodes.get(name)
        if node is None:
            return f"no GPU data from node {name}"
        # An agent whose clock is wrong is believed while it is seen to write.
        last = max(min(node.observed_s, now_s), self._heard.get(name, 0.0))
        if last < now_s - STALE_S:
            since = f" since {rfc3339(last)}" if last else ""
            return f"no GPU data from node {name}{since}"
        if not node.devices and node.problem:
            return f"no GPU data from node {name}: {node.problem}"
        return ""

    # ------------------------------------------------------------------ pods

    def of_pod(self, pod: Object, now_s: float) -> PodUse:
        """A pod that is bound; one that is not has no GPUs yet."""
        uid, node = pod["metadata"].get("uid") or "", pod["spec"].get("nodeName") or ""
        asked = held.gpus(pod)
        where, devices = self._of_pod.get(uid, ("", ()))
        if not node or (asked <= 0 and not devices):
            return PodUse(asked if node else 0.0, 0.0, 0.0, None)
        problem = self.stale(node, now_s)
        if problem:
            return PodUse(asked, 0.0, 0.0, None, problem)
        state = self.nodes[node]
        if where != node:
            devices = ()
        if not devices and self._told_s(state) <= _began_s(pod):
            return PodUse(asked, 0.0, 0.0, None, _TOO_EARLY.format(node))
        shared = held.shares(pod)
        return _used(uid, state, devices, asked or float(len(devices)), bool(shared))

    def _told_s(self, state: NodeUse) -> float:
        """Of when its figures are, by our clock."""
        heard = self._heard.get(state.name, state.observed_s)
        return heard if abs(heard - state.observed_s) > _LATE_S else state.observed_s

    def of_pods(self, pods: Iterable[Object], now_s: float) -> PodUse:
        """The sum; `problem` is the first one."""
        found = [self.of_pod(pod, now_s) for pod in pods]
        return total(use for use in found if use.held > 0)


def total(uses: Iterable[PodUse]) -> PodUse:
    found = list(uses)
    memory = [use.used_mib for use in found if use.used_mib is not None]
    return PodUse(
        sum(use.held for use in found),
        sum(use.known for use in found),
        sum(use.used for use in found),
        sum(memory) if memory else None,
        next((use.problem for use in found if use.problem), ""),
        min((use.observed_s for use in found if use.observed_s), default=0.0),
    )


def _began_s(pod: Object) -> float:
    """When a pod that is bound started, at the earliest."""
    status, placed = pod.get("status") or {}, ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            placed = condition.get("lastTransitionTime")
    text = status.get("startTime") or placed or pod["metadata"].get("creationTimestamp")
    try:
        return epoch(text) if text else 0.0
    except (TypeError, ValueError):
        return 0.0


def _used(
    uid: str, node: NodeUse, devices: tuple[DeviceUse, ...], asked: float, shared: bool
) -> PodUse:
    used, known, memory, seen = 0.0, 0.0, 0, False
    for device in devices:
        part, size = _part(uid, device)
        own = asked / len(devices) if shared else min(1.0, asked)
        if part is not None:
            known += own
            used += min(part, 1.0)
        if size is not None:
            memory, seen = memory + size, True
    rest = asked - (asked if shared and devices else min(float(len(devices)), asked))
    problem = ""
    if known < min(asked, len(devices)) - 1e-6 and devices:
        problem = f"the driver of node {node.name} does not say what its devices do"
    if rest > 1e-6:
        if node.mapped:
            known += rest
        else:
            problem = f"node {node.name} cannot tell which pod uses which GPU"
    known, held_ = min(known, asked), asked
    return PodUse(held_, known, used, memory if seen else None, problem, node.observed_s)


def _part(uid: str, device: DeviceUse) -> tuple[float | None, int | None]:
    """(the pod's part of the device's time, its memory there in MiB)."""
    mine = [use for use in device.uses if use.uid == uid]
    sizes = [use.used_mib for use in mine if use.used_mib is not None]
    size = sum(sizes) if sizes else None
    if device.mig:
        return (None if mine or device.strangers else 0.0), size
    if device.holders == {uid} and (device.blind or not device.strangers):
        return device.utilization, size if mine else device.used_mib
    parts = [use.part for use in mine if use.part is not None]
    if len(parts) == len(mine) and (mine or not device.strangers):
        return sum(parts), size
    return device.utilization, size

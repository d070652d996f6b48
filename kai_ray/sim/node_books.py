"""What one simulated node has given out: the kubelet's own count, device by device."""

from __future__ import annotations

import heapq

from kai_ray.api import labels as L
from kai_ray.cluster.port import Object

from . import pod_facts
from .shared_gpus import SharedGpus


class NodeBooks:
    """Admits pods while they fit, as a kubelet does, and hands out GPU indices lowest first."""

    def __init__(self, node: Object) -> None:
        self.free = pod_facts.allocatable(node)
        self.capacity = dict(self.free)
        self.pods: dict[str, dict[str, int]] = {}
        self.ports: dict[str, frozenset[tuple[str, int]]] = {}
        self.devices: dict[str, list[int]] = {}
        self.devices_shared: dict[str, list[int]] = {}
        self.shared = SharedGpus(pod_facts.card_mib(node))
        self._idle_gpus = list(range(self.free.get(L.NVIDIA_GPU, 0)))

    def resize(self, node: Object) -> None:
        """Takes in a changed allocatable."""
        fresh = pod_facts.allocatable(node)
        if fresh == self.capacity:
            return
        for name in {*fresh, *self.capacity}:
            change = fresh.get(name, 0) - self.capacity.get(name, 0)
            self.free[name] = self.free.get(name, 0) + change
        self.capacity = fresh
        held = {i for given in self.devices.values() for i in given}
        self._idle_gpus = [i for i in range(fresh.get(L.NVIDIA_GPU, 0)) if i not in held]
        heapq.heapify(self._idle_gpus)

    def shortage(self, wanted: dict[str, int]) -> str:
        """The first resource that does not fit, or ""."""
        for name in sorted(wanted):
            if wanted[name] > self.free.get(name, 0) and (wanted[name] > 0):
                return name
        return ""

    def taken_port(self, ports: frozenset[tuple[str, int]]) -> tuple[str, int] | None:
        """A host port that another pod holds already."""
        return next((p for held in self.ports.values() for p in sorted(held & ports)), None)

    def admit(
        self,
        uid: str,
        wanted: dict[str, int],
        ports: frozenset[tuple[str, int]] = frozenset(),
        devices: list[int] | None = None,
        shares: dict[str, int] | None = None,
        keeps: str = "",
    ) -> None:
        """Books a pod. `devices`: what it already held before a restart of this process.

        `shares` are MiB of devices that it shares, by group: nobody holds those as a whole, but
        the pod that `keeps` one for the group.
        """
        if uid in self.pods:
            return
        if shares:
            self.devices_shared[uid] = self.shared.join(uid, shares, devices or [])
            devices = None
        self.pods[uid] = wanted
        if ports:
            self.ports[uid] = ports
        for name, value in wanted.items():
            self.free[name] = self.free.get(name, 0) - value
        count = wanted.get(L.NVIDIA_GPU, 0)
        if devices:
            taken = set(devices)
            self._idle_gpus = [i for i in self._idle_gpus if i not in taken]
            heapq.heapify(self._idle_gpus)
            self.devices[uid] = devices
        elif count:
            held = min(count, len(self._idle_gpus))
            self.devices[uid] = [heapq.heappop(self._idle_gpus) for _ in range(held)]
        for index in self.devices.get(uid, ()) if keeps else ():
            self.shared.keep(uid, keeps, index)

    def given(self, uid: str) -> list[int]:
        """The devices that a pod uses, alone or with others."""
        return [*self.devices.get(uid, ()), *self.devices_shared.get(uid, ())]

    def release(self, uid: str) -> None:
        self.ports.pop(uid, None)
        self.devices_shared.pop(uid, None)
        self.shared.leave(uid)
        wanted = self.pods.pop(uid, None)
        if wanted is None:
            return
        for name, value in wanted.items():
            self.free[name] = self.free.get(name, 0) + value
        for index in self.devices.pop(uid, ()):
            if index < self.capacity.get(L.NVIDIA_GPU, 0):
                heapq.heappush(self._idle_gpus, index)

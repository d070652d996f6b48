"""Stand-in for the device plugins and reservation programs of nodes without a kubelet.

It keeps a book of its own: which pod was given which device. A pod that asks for more whole devices
than are left is refused, as a kubelet refuses it. A reservation pod is given any device that is
free and says which, as the program in it would.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, field

from kai_ray.api import labels as L
from kai_ray.cluster import resources as r
from kai_ray.cluster.port import NotFound, Object
from kai_ray.cluster.runtime import Runtime


@dataclass
class Devices:
    """One node: who holds which of its devices."""

    count: int
    held: dict[int, str] = field(default_factory=dict[int, str])  # index -> uid

    def free(self) -> list[int]:
        return [i for i in range(self.count) if i not in self.held]


class DevicePlugin:
    """With `kubelet`, it also runs bound pods and ends deleted ones, where nobody else does."""

    name = "device-plugin"

    def __init__(self, *, kubelet: bool = False, seed: int = 0, silent: bool = False) -> None:
        self._kubelet = kubelet
        self._random = random.Random(seed)
        self.silent = silent  # reservation programs say nothing
        self.nodes: dict[str, Devices] = {}
        self.given: dict[str, tuple[str, list[int]]] = {}  # uid -> node, devices
        self.refused: list[str] = []

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._node = runtime.informer(r.NODE)
        self._pods = runtime.informer(r.POD)
        self._node.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and new["metadata"]["name"] not in self.nodes:
            offered = (new.get("status") or {}).get("allocatable") or {}
            self.nodes[new["metadata"]["name"]] = Devices(int(offered.get(L.NVIDIA_GPU, 0)))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        if new is None or _phase(new) in ("Succeeded", "Failed"):
            self._take_back(pod["metadata"]["uid"])
        elif new["spec"].get("nodeName"):
            meta = new["metadata"]
            self._runtime.enqueue(self.name, f"{meta['namespace']}/{meta['name']}")

    def _take_back(self, uid: str) -> None:
        node, devices = self.given.pop(uid, ("", []))
        for index in devices:
            del self.nodes[node].held[index]

    def reconcile(self, key: str) -> float | None:
        namespace, _, name = key.partition("/")
        pod = self._pods.get(name, namespace)
        if pod is None or _phase(pod) in ("Succeeded", "Failed"):
            return None
        if pod["metadata"].get("deletionTimestamp"):
            self._end(pod)
        elif pod["spec"]["nodeName"] not in self.nodes:
            return 0.2
        elif self._admits(pod):
            self._run(pod)
        return None

    def _admits(self, pod: Object) -> bool:
        uid, node = pod["metadata"]["uid"], self.nodes[pod["spec"]["nodeName"]]
        wanted = _whole(pod)
        if uid in self.given or not wanted:
            return True
        free = node.free()
        if len(free) < wanted:
            message = f"Allocate failed: requested {wanted} devices, available: {len(free)}"
            self.refused.append(f"{pod['metadata']['name']}: {message}")
            status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}
            self._write(pod, {"status": status}, "status")
            return False
        devices = self._random.sample(free, wanted)
        for device in devices:
            node.held[device] = str(uid)
        self.given[uid] = (pod["spec"]["nodeName"], devices)
        return True

    def _run(self, pod: Object) -> None:
        if self._kubelet and _phase(pod) == "Pending":
            self._write(pod, {"status": {"phase": "Running"}}, "status")
        told = (pod["metadata"].get("annotations") or {}).get(L.RESERVED_GPU)
        if is_reservation(pod) and not told and not self.silent:
            node, (index,) = self.given[pod["metadata"]["uid"]]
            note = {"metadata": {"annotations": {L.RESERVED_GPU: uuid_of(node, index)}}}
            self._write(pod, note)

    def _end(self, pod: Object) -> None:
        meta = pod["metadata"]
        if self._kubelet:
            with contextlib.suppress(NotFound):
                self._runtime.port.delete(
                    r.POD, meta["name"], meta["namespace"], grace_s=0, uid=meta["uid"]
                )

    def _write(self, pod: Object, patch: Object, subresource: str = "") -> None:
        meta = pod["metadata"]
        patch = {**patch, "metadata": {"uid": meta["uid"], **patch.get("metadata", {})}}
        with contextlib.suppress(NotFound):
            made = self._runtime.port.patch(
                r.POD, meta["name"], patch, meta["namespace"], subresource=subresource
            )
            self._pods.remember(made)

    def holder(self, device: str) -> str:
        """The uid of the pod that a device was given to; "" if it is free."""
        for name, node in self.nodes.items():
            for index, uid in node.held.items():
                if uuid_of(name, index) == device:
                    return uid
        return ""


def uuid_of(node: str, index: int) -> str:
    return f"GPU-{node}-{index}"


def is_reservation(pod: Object) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return labels.get("app") == "kai-resource-reservation"


def _phase(pod: Object) -> str:
    return (pod.get("status") or {}).get("phase") or "Pending"


def _whole(pod: Object) -> int:
    containers = pod["spec"].get("containers") or ()
    asked = [c.get("resources") or {} for c in containers]
    return sum(
        int({**(a.get("limits") or {}), **(a.get("requests") or {})}.get(L.NVIDIA_GPU, 0))
        for a in asked
    )

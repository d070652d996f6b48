"""A world whose GPUs come from resource slices only, for pods that share them and pods that claim.

The judge reads objects alone: who was told which GPU, and what claims hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import NotFound, Object, Port
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim.operators.resource_claims import ResourceClaimOperator
from tests.control import objects
from tests.control.faults import Crash
from tests.control.world import World
from tests.dra import objects as o

KEPT_IN = "kai-resource-reservation"


class CardWorld(World):
    """Nodes of `cards` GPUs; claims are made and freed as kube-controller-manager does."""

    def __init__(
        self, nodes: int = 1, cards: int = 2, wrap: Callable[[Port], Port] = lambda port: port
    ) -> None:
        self.ready = False
        super().__init__(nodes, 0, wrap=wrap)
        self.store.create(kinds.DEVICE_CLASS, o.device_class())
        self.store.create(kinds.RESOURCE_CLAIM_TEMPLATE, o.template("one"))
        every = o.spec(o.exactly(allocationMode="All"))
        self.store.create(kinds.RESOURCE_CLAIM_TEMPLATE, o.template("every", every))
        for i in range(nodes):
            self.store.create(kinds.RESOURCE_SLICE, o.slice_of(f"node-{i}", gpus(i, cards)))
        self.ready = True
        self.boot()

    def boot(self) -> None:
        if not self.ready:
            return
        super().boot()
        self.runtime.add(ResourceClaimOperator())
        self.runtime.add(_Ends())

    def settle(self, seconds: float = 30) -> None:
        """Runs, and starts anew as often as the process dies."""
        while True:
            try:
                self.run(seconds)
            except Crash:
                self.boot()
            else:
                return

    def share(self, name: str, fraction: str = "0.5", **notes: str) -> None:
        """`notes` are further annotations, with _ for -."""
        part = {"gpu-fraction": fraction} if fraction else {}
        self._pod(name, {**part, **{k.replace("_", "-"): v for k, v in notes.items()}})

    def whole(self, name: str, template: str = "one", **group: Any) -> None:
        """`group` is more of its PodGroup's spec."""
        entry = {"name": "gpus", "resourceClaimTemplateName": template}
        self._pod(name, {}, group, resourceClaims=[entry])

    def _pod(
        self, name: str, notes: dict[str, str], group: dict[str, Any] | None = None, **spec: Any
    ) -> None:
        made = objects.podgroup(name, "default-queue", **(group or {}))
        self.store.create(kinds.POD_GROUP, made)
        made = objects.pod(name, name, gpus=0, **spec)
        made["metadata"]["annotations"] |= notes
        self.store.create(kinds.POD, made)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is created inside is decided in one cycle."""
        nodes = [n["metadata"]["name"] for n in self.store.list(kinds.NODE).items]
        for closed in (True, None):
            for name in nodes:
                self.store.patch(kinds.NODE, name, {"spec": {"unschedulable": closed}})
            if closed:
                yield
                self.run(2)

    def end(self, name: str, namespace: str = "default") -> None:
        self.store.delete(kinds.POD, name, namespace, grace_s=0)

    def keepers(self) -> list[Object]:
        return self.store.list(kinds.POD, KEPT_IN).items

    def told(self) -> dict[str, str]:
        """Pods that share and are bound, and the GPU that each was told."""
        found = {p["metadata"]["name"]: p["metadata"].get("annotations") or {} for p in self.pods()}
        placed = self.placed()
        return {
            name: notes["kai.scheduler/gpu-devices"]
            for name, notes in found.items()
            if "kai.scheduler/gpu-devices" in notes and name in placed
        }

    def claimed(self, namespace: str = "default") -> dict[str, list[str]]:
        """Claims and the GPUs that they hold, by UUID."""
        uuid = {
            (s["spec"]["pool"]["name"], d["name"]): _uuid(d)
            for s in self.store.list(kinds.RESOURCE_SLICE).items
            for d in s["spec"]["devices"]
        }
        found: dict[str, list[str]] = {}
        for claim in self.store.list(kinds.RESOURCE_CLAIM, namespace).items:
            allocation = (claim.get("status") or {}).get("allocation") or {}
            results = (allocation.get("devices") or {}).get("results") or ()
            if results:
                name = claim["metadata"]["name"]
                found[name] = [uuid[r["pool"], r["device"]] for r in results]
        return found

    def wrong(self) -> list[str]:
        """What must never be."""
        wholes = [d for devices in self.claimed().values() for d in devices]
        kept = [d for devices in self.claimed(KEPT_IN).values() for d in devices]
        found = [f"{d} is claimed twice" for d in set(wholes) if wholes.count(d) > 1]
        found += [f"{d} is kept twice" for d in set(kept) if kept.count(d) > 1]
        found += [f"{d} is kept and claimed" for d in set(kept) & set(wholes)]
        parts: dict[str, float] = {}
        nodes = self.placed()
        notes = {p["metadata"]["name"]: p["metadata"]["annotations"] for p in self.pods()}
        for pod, devices in self.told().items():
            for device in devices.split(","):
                if device in wholes:
                    found.append(f"{pod} shares {device}, which is claimed")
                if not device.startswith(f"GPU-{nodes[pod]}-"):
                    found.append(f"{pod} on {nodes[pod]} was told {device}")
                memory = float(notes[pod].get("gpu-memory", 0)) / 81_900
                part = float(notes[pod].get("gpu-fraction", memory))
                parts[device] = parts.get(device, 0.0) + part
        found += [f"{d} is promised {part:.2f} times" for d, part in parts.items() if part > 1.001]
        return found


def _uuid(device: Object) -> str:
    return device["attributes"].get("uuid", {"string": device["name"]})["string"]


def gpus(node: int, count: int, **attributes: Any) -> list[Object]:
    return [
        o.device(
            f"gpu-{i}",
            attributes={"uuid": f"GPU-node-{node}-{i}", **attributes},
            capacity={"memory": "80Gi"},
        )
        for i in range(count)
    ]


class _Ends:
    """Lets pods go that are told to, as their kubelet does."""

    name = "ends"

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pods = runtime.informer(kinds.POD)
        self._pods.on_change(self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None and new["metadata"].get("deletionTimestamp"):
            meta = new["metadata"]
            self._runtime.enqueue(self.name, f"{meta['namespace']}/{meta['name']}")

    def reconcile(self, key: str) -> float | None:
        namespace, _, name = key.partition("/")
        pod = self._pods.get(name, namespace)
        if pod is not None and pod["metadata"].get("deletionTimestamp"):
            try:
                self._runtime.port.delete(
                    kinds.POD, name, namespace, grace_s=0, uid=pod["metadata"]["uid"]
                )
            except NotFound:
                return None
        return None

"""Writes GPUNodeStates as seldom as honesty allows: what has not moved is not written again.

A change of health, of devices or of who runs where is written at the next turn, a figure when it
has moved by more than a hair, and all of it now and then: a reader knows that the writer lives.
"""

from __future__ import annotations

import msgspec

from kai_ray.api.gpu_state import GpuDevice, GPUNodeStatus, GpuProcess
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import AlreadyExists, NotFound, Object, Port

#: Readers take a node for silent after more than twice this long.
HEARTBEAT_S = 120.0
#: Parts of 1 by which a figure may drift unwritten.
_HAIR = 0.01


class Publisher:
    """For one node or many. Raises ApiError; what was not written is due again."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._wrote: dict[str, tuple[float, GPUNodeStatus]] = {}

    def publish(
        self, node: str, status: GPUNodeStatus, now_s: float, uid: str = ""
    ) -> Object | None:
        """The object if it was written. `uid` of the Node: the object goes with it."""
        known = self._wrote.get(node)
        recent = known is not None and 0 <= now_s - known[0] < HEARTBEAT_S
        if recent and known is not None and same(known[1], status):
            return None
        body = {"status": _body(status)}
        try:
            made = self._patch(node, body)
        except NotFound:
            self._create(node, uid)
            made = self._patch(node, body)
        self._wrote[node] = (now_s, status)
        return made

    def forget(self, node: str) -> None:
        self._wrote.pop(node, None)

    def _patch(self, node: str, body: Object) -> Object:
        return self._port.patch(kinds.GPU_NODE_STATE, node, body, subresource="status")

    def _create(self, node: str, uid: str) -> None:
        meta: Object = {"name": node}
        if uid:
            owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
            meta["ownerReferences"] = [owner]
        kind = kinds.GPU_NODE_STATE
        obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta}
        try:
            self._port.create(kind, obj)
        except AlreadyExists:
            return


def _body(status: GPUNodeStatus) -> Object:
    """All of the status, so that a patch leaves nothing of an earlier one; devices without null."""
    found = msgspec.to_builtins(status)
    found["devices"] = [
        {name: value for name, value in device.items() if value is not None}
        for device in found["devices"]
    ]
    return found


def same(one: GPUNodeStatus, other: GPUNodeStatus) -> bool:
    """Whether nothing has moved by more than a hair."""
    if (one.driver, one.problem, one.source) != (other.driver, other.problem, other.source):
        return False
    if len(one.devices) != len(other.devices):
        return False
    return all(_same_device(a, b) for a, b in zip(one.devices, other.devices, strict=True))


def _same_device(a: GpuDevice, b: GpuDevice) -> bool:
    fixed = ("uuid", "index", "model", "memory_mib", "healthy", "problem", "numa_node", "links")
    if any(getattr(a, name) != getattr(b, name) for name in fixed) or a.pods != b.pods:
        return False
    whole = a.memory_mib or 0
    if not _near(a.utilization, b.utilization) or not _near(a.used_mib, b.used_mib, whole):
        return False
    if [i.uuid for i in a.mig_instances] != [i.uuid for i in b.mig_instances]:
        return False
    if (a.processes is None) is not (b.processes is None):
        return False
    pairs = [(a.processes or [], b.processes or [])]
    pairs += [
        (i.processes, j.processes) for i, j in zip(a.mig_instances, b.mig_instances, strict=True)
    ]
    return all(_same_processes(p, q, whole) for p, q in pairs)


def _same_processes(p: list[GpuProcess], q: list[GpuProcess], whole: int) -> bool:
    if [(x.uid, x.container) for x in p] != [(x.uid, x.container) for x in q]:
        return False
    return all(
        _near(x.utilization, y.utilization) and _near(x.used_mib, y.used_mib, whole)
        for x, y in zip(p, q, strict=True)
    )


def _near(a: float | None, b: float | None, whole: float = 1.0) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a - b) <= _HAIR * max(whole, 1.0)

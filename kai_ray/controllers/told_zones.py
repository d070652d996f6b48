"""Which GPUs of a node are close to each other, as its agent found out, told to the scheduler.

The node's annotation `kai.scheduler/zones` says which GPUs share a NUMA cell and which are joined
by NVLink; the encoder reads it. One that somebody else wrote is left alone. The agent knows nothing
of how the kubelet aligns pods, so no policy is stated: what asks for alignment itself gets it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import NotFound, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.encode.settings import EncodeConfig, in_shard
from kai_ray.gpu.node_use import DeviceUse, read

#: In the annotation: it is ours to change and to take away.
_OURS = "node agent"


class ToldZones:
    """Keys: names of nodes."""

    name = "told-zones"

    def __init__(self, config: EncodeConfig) -> None:
        self._config = config
        self._wanted: dict[str, str] = {}  # node -> annotation, "" where nothing is told

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._nodes = runtime.informer(kinds.NODE)
        self._nodes.on_change(self._node_changed)
        runtime.informer(kinds.GPU_NODE_STATE).on_change(self._state_changed)

    def _state_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new if new is not None else old
        assert obj is not None
        if new is not None and old is not None and _layout(new) == _layout(old):
            return  # most news are of use only
        name = obj["metadata"]["name"]
        found = zones_of(read(new).devices) if new is not None else ""
        if not found and new is not None and not (new.get("status") or {}).get("devices"):
            return  # the driver does not answer just now: what was so is still so
        if found != self._wanted.get(name, ""):
            self._wanted[name] = found
            self._runtime.enqueue(self.name, name)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._wanted.pop(old["metadata"]["name"], None)
        elif new["metadata"]["name"] in self._wanted:
            self._runtime.enqueue(self.name, new["metadata"]["name"])

    def reconcile(self, key: str) -> float | None:
        node, wanted = self._nodes.get(key), self._wanted.get(key)
        if node is None or wanted is None or not in_shard(node, self._config):
            return None
        known = (node["metadata"].get("annotations") or {}).get(names.NODE_ZONES)
        if known == (wanted or None) or (known is not None and not _is_ours(known)):
            return None
        patch = {"metadata": {"annotations": {names.NODE_ZONES: wanted or None}}}
        try:
            self._nodes.remember(self._runtime.port.patch(kinds.NODE, key, patch))
        except NotFound:
            return None
        return None


def _layout(state: Object) -> list[Any]:
    """What the zones are made of, as it stands in the object."""
    devices = (state.get("status") or {}).get("devices")
    return [
        (d.get("index"), d.get("numaNode"), d.get("links"), bool(d.get("migInstances")))
        if isinstance(d, dict)
        else d
        for d in (devices if isinstance(devices, list) else ())
    ]


def zones_of(devices: Sequence[DeviceUse]) -> str:
    """The annotation that says so; "" where the devices tell nothing. They count as NVIDIA's."""
    if any(device.mig for device in devices):
        return ""  # what pods get there are instances, not cards
    cells: dict[int, int] = {}
    for device in devices:
        if device.numa_node is not None:
            cells[device.numa_node] = cells.get(device.numa_node, 0) + 1
    said: dict[str, Any] = {}
    if cells:
        said["zones"] = [_zone(str(cell), count) for cell, count in sorted(cells.items())]
    groups = [group for group in link_groups(devices) if len(group) > 1]
    if groups:
        said["links"] = [_zone(str(n), len(group)) for n, group in enumerate(groups)]
    return json.dumps({**said, "by": _OURS}) if said else ""


def link_groups(devices: Sequence[DeviceUse]) -> list[list[int]]:
    """Indices of devices that all reach each other, in order; each device is in one group."""
    links = {device.index: {*device.links} for device in devices}
    groups: list[list[int]] = []
    for index in sorted(links):
        for group in groups:
            if all(other in links[index] and index in links[other] for other in group):
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


def _zone(name: str, gpus: int) -> dict[str, Any]:
    return {"name": name, names.NVIDIA_GPU: gpus}


def _is_ours(annotation: str) -> bool:
    try:
        found = json.loads(annotation)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("by") == _OURS

"""ResourceSlices: which devices a driver offers, and from which nodes they are reached.

Source: Kubernetes resource.k8s.io/v1; v1beta1 keeps a device's body under `basic`. A pool counts in
its newest generation only, and only once all of its slices are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kai_ray.cluster.port import Object
from kai_ray.encode.problems import Malformed, text
from kai_ray.encode.selectors import NodeSelector, node_selector_terms

from .asks import Taint, taints
from .attributes import Name, Value, attribute, capacity, qualified


class DeviceId(NamedTuple):
    driver: str
    pool: str
    device: str


class Reach(NamedTuple):
    """From where a device can be used: one node, or all that the selector matches."""

    node: str = ""
    selector: NodeSelector | None = None  # None = all nodes


class Device(NamedTuple):
    id: DeviceId
    reach: Reach
    attributes: dict[Name, Value]
    capacity: dict[Name, float]
    taints: tuple[Taint, ...]

    def value(self, name: Name) -> Value:
        """An attribute, None where the device has none of that name."""
        return self.attributes.get(name)


class Slice(NamedTuple):
    driver: str
    pool: str
    generation: int
    count: int  # slices of the pool in this generation
    devices: tuple[Device, ...]
    left_out: tuple[str, ...] = ()  # devices that are offered in ways we do not give away


def read(obj: Object) -> Slice:
    """Raises Malformed."""
    spec = obj["spec"]
    driver = text(spec.get("driver"), "spec.driver")
    pool = spec.get("pool") or {}
    name = text(pool.get("name"), "spec.pool.name")
    per_device = bool(spec.get("perDeviceNodeSelection"))
    common = None if per_device else _reach(spec, "spec")
    devices: list[Device] = []
    left_out: list[str] = []
    for i, raw in enumerate(spec.get("devices") or ()):
        field = f"spec.devices[{i}]"
        body = raw.get("basic") or raw
        reach = common or _reach(body, field)
        found = DeviceId(driver, name, text(raw.get("name"), f"{field}.name"))
        why = _beyond(body)
        if why:
            left_out.append(f"{found.device} ({why})")
            continue
        devices.append(_device(found, reach, body, field))
    generation, count = pool.get("generation", 0), pool.get("resourceSliceCount", 1)
    if type(generation) is not int or type(count) is not int:
        raise Malformed("spec.pool", "generation and resourceSliceCount are integers")
    return Slice(driver, name, generation, count, tuple(devices), tuple(left_out))


def _beyond(body: dict[str, Any]) -> str:
    """Why a device is not given away; "" where it is."""
    if body.get("consumesCounters"):
        return "draws on shared counters"
    if body.get("allowMultipleAllocations"):
        return "is shared by amounts of its capacity"
    if body.get("bindingConditions") or body.get("bindingFailureConditions"):
        return "is ready only after the bind"
    return ""


def _device(found: DeviceId, reach: Reach, body: dict[str, Any], field: str) -> Device:
    attributes = {
        qualified(name, found.driver): attribute(raw, f"{field}.attributes[{name}]")
        for name, raw in (body.get("attributes") or {}).items()
    }
    amounts = {
        qualified(name, found.driver): capacity(raw, f"{field}.capacity[{name}]")
        for name, raw in (body.get("capacity") or {}).items()
    }
    return Device(found, reach, attributes, amounts, taints(body.get("taints"), f"{field}.taints"))


def _reach(raw: dict[str, Any], field: str) -> Reach:
    node = text(raw.get("nodeName"), f"{field}.nodeName")
    if node:
        return Reach(node)
    selector = raw.get("nodeSelector")
    if selector is not None:
        terms = selector.get("nodeSelectorTerms")
        return Reach("", node_selector_terms(terms, f"{field}.nodeSelector.nodeSelectorTerms"))
    if raw.get("allNodes"):
        return Reach()
    raise Malformed(field, "says not from where its devices are reached: name a node")


def current(slices: Iterable[Slice]) -> list[Device]:
    """The devices of all pools that are complete, in the order of their names."""
    pools: dict[tuple[str, str], list[Slice]] = {}
    for one in slices:
        mine = pools.setdefault((one.driver, one.pool), [])
        if mine and mine[0].generation > one.generation:
            continue
        if mine and mine[0].generation < one.generation:
            mine.clear()
        mine.append(one)
    found: dict[DeviceId, Device] = {}
    twice: set[tuple[str, str]] = set()
    for pool, parts in pools.items():
        if len(parts) != parts[0].count:
            continue
        for device in (device for part in parts for device in part.devices):
            if device.id in found:
                twice.add(pool)  # a pool that contradicts itself offers nothing
            found[device.id] = device
    return [found[i] for i in sorted(found) if (i.driver, i.pool) not in twice]

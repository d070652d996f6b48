"""Single devices that fail again and again take no more pods for a while; the node goes on.

Three things are known of a device. Pods that share it name it in a label: when the kubelet rejects
them, or their containers cannot be started for a reason that speaks of the device, again and again,
it is the device's fault unless they are all the same pod. A kubelet that knows the health of
devices writes it into the status of the pods that hold them. And the node's agent asks the driver.
All end in one annotation of the Node, with reason and end, which the encoder reads: who shares the
device stays, nobody else gets any of it, and a device that nobody shares is one whole GPU fewer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import Key, NotFound, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.events import Events
from kai_ray.controllers.rejections import moment, rejected, unstarted
from kai_ray.encode.bad_devices import BadDevice, marked, written
from kai_ray.encode.gpu_table import groups_of
from kai_ray.encode.settings import in_shard

_LONGEST = 512


class _Failure(NamedTuple):
    at_s: float
    pod: str  # its UID
    said: str


class BadDevices:
    """Keys: the name of a node with a device to be marked, or to be tried again."""

    name = "bad-devices"

    def __init__(self, config: ControlConfig, events: Events) -> None:
        self._config = config
        self._events = events
        self._failures: dict[tuple[str, str], deque[_Failure]] = {}  # by (node, device)
        self._sick: dict[tuple[str, str], str] = {}  # by (node, device): what a kubelet said
        self._broken: dict[str, dict[str, str]] = {}  # by node: device -> what its agent said

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._nodes = runtime.informer(kinds.NODE)
        self._nodes.on_change(self._node_changed)
        runtime.informer(kinds.POD).on_change(self._pod_changed)
        runtime.informer(kinds.GPU_NODE_STATE).on_change(self._state_changed)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            gone = old["metadata"]["name"] if old is not None else ""
            for book in (self._failures, self._sick):
                for key in [key for key in book if key[0] == gone]:
                    del book[key]
        elif marked(_annotations(new)):
            self._runtime.enqueue(self.name, new["metadata"]["name"])

    def _state_changed(self, old: Object | None, new: Object | None) -> None:
        """An agent that falls silent takes nothing back: only its word, or that it is gone."""
        obj = new if new is not None else old
        assert obj is not None
        if new is not None and not (new.get("status") or {}).get("devices"):
            return  # its driver does not answer
        name, found = obj["metadata"]["name"], _unhealthy(new)
        if found != self._broken.get(name, {}):
            self._broken[name] = found
            self._runtime.enqueue(self.name, name)
        if not found:
            self._broken.pop(name, None)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None or not new["spec"].get("nodeName"):
            return
        self._look_at_health(new)
        said = _failed(new)
        if said and old is not None and not _failed(old):  # what was so when we came may be old
            self._note(new, said)

    def _note(self, pod: Object, said: str) -> None:
        node, now = pod["spec"]["nodeName"], self._runtime.clock.now()
        for group in groups_of(pod):
            seen = self._failures.setdefault((node, group), deque())
            seen.append(_Failure(now, pod["metadata"].get("uid") or "", said))
            while seen and seen[0].at_s <= now - self._config.rejection_window_s:
                seen.popleft()
            if self._guilty(seen):
                self._runtime.enqueue(self.name, node)

    def _guilty(self, seen: deque[_Failure]) -> bool:
        """Whether it is the device: enough failures, and not all of one pod."""
        enough = len(seen) >= self._config.rejections
        return enough and (self._config.rejections < 2 or len({f.pod for f in seen}) > 1)

    def _look_at_health(self, pod: Object) -> None:
        node = pod["spec"]["nodeName"]
        for device, resource, healthy in _health(pod):
            key = (node, device)
            if healthy and key in self._sick:
                del self._sick[key]
                self._runtime.enqueue(self.name, node)
            elif not healthy and key not in self._sick:
                self._sick[key] = f"its kubelet says that this {resource} is unhealthy"
                self._runtime.enqueue(self.name, node)

    def reconcile(self, key: str) -> float | None:
        node, now = self._nodes.get(key), self._runtime.clock.now()
        if node is None or not in_shard(node, self._config.encode):
            return None
        known = {device.name: device for device in marked(_annotations(node))}
        kept = {
            name: device
            for name, device in known.items()
            if (moment(device.until) > now if device.until else self._is_sick(key, name))
        }
        found = kept | self._new(key, kept, now)
        if found != known:
            self._write(node, found)
            for name in found.keys() - known.keys():
                self._tell(node, found[name])
        ends = [moment(device.until) for device in found.values() if device.until]
        return max(min(ends) - now, 0.001) if ends else None

    def _new(self, node: str, known: dict[str, BadDevice], now: float) -> dict[str, BadDevice]:
        found: dict[str, BadDevice] = {}
        sick = {device: said for (where, device), said in self._sick.items() if where == node}
        for device, reason in (self._broken.get(node, {}) | sick).items():
            if device not in known:
                found[device] = BadDevice(device, reason[:_LONGEST])
        for (where, device), seen in list(self._failures.items()):
            if where != node or not self._guilty(seen):
                continue
            del self._failures[where, device]
            if device not in known:
                reason = f"{len(seen)} pods failed on it, the last one: {seen[-1].said}"
                until = rfc3339(now + self._config.quarantine_s)
                found[device] = BadDevice(device, reason[:_LONGEST], until)
        return found

    def _is_sick(self, node: str, device: str) -> bool:
        return (node, device) in self._sick or device in self._broken.get(node, {})

    def _write(self, node: Object, devices: dict[str, BadDevice]) -> None:
        patch = {"metadata": {"annotations": {names.BAD_DEVICES: written(devices)}}}
        name = node["metadata"]["name"]
        try:
            self._nodes.remember(self._runtime.port.patch(kinds.NODE, name, patch))
        except NotFound:
            return

    def _tell(self, node: Object, device: BadDevice) -> None:
        until = f"until {device.until}" if device.until else "until it is healthy"
        text = f"device {device.name} takes no more pods {until}: {device.reason}"
        uid = node["metadata"].get("uid") or ""
        key = Key("", node["metadata"]["name"])
        self._events.warn(kinds.NODE, key, uid, "DeviceQuarantined", text)


def _failed(pod: Object) -> str:
    """What keeps a pod from running on its node; "" for any other pod."""
    reason = rejected(pod)
    if reason:
        return f"{reason}: {pod['status'].get('message') or ''}"
    return unstarted(pod)


def _unhealthy(state: Object | None) -> dict[str, str]:
    """Device -> what is wrong, by what its node's agent says."""
    found: dict[str, str] = {}
    devices = ((state or {}).get("status") or {}).get("devices")
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, dict) and device.get("healthy") is False and device.get("uuid"):
            said = str(device.get("problem") or "it is not healthy")
            found[str(device["uuid"])] = f"its node's agent says: {said}"
    return found


def _health(pod: Object) -> Iterator[tuple[str, str, bool]]:
    """(device, resource, whether it is healthy) of what a pod holds (KEP-4680)."""
    status = pod.get("status") or {}
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(field) or ():
            for held in container.get("allocatedResourcesStatus") or ():
                resource = str(held.get("name") or "")
                if resource not in names.GPU_RESOURCES:
                    continue
                for one in held.get("resources") or ():
                    device, health = one.get("resourceID"), one.get("health")
                    if device and health in ("Healthy", "Unhealthy"):
                        yield str(device), resource, health == "Healthy"


def _annotations(obj: Object) -> Object:
    return obj["metadata"].get("annotations") or {}

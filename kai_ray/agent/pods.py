"""The pods of this node, followed by a watch of their own: names by UID, containers by id.

What pods say about their devices is read here as well: from their status where the kubelet writes
it (KEP-4680), and from our own annotation on pods that share a card.
"""

from __future__ import annotations

import contextlib
import logging
from typing import NamedTuple

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import ApiError, Gone, Object, Port, Watch
from kai_ray.gpu.held import gpus, shares

log = logging.getLogger(__name__)

_MOST_EVENTS = 10_000
_ENDED = ("Succeeded", "Failed")


class Named(NamedTuple):
    namespace: str
    name: str
    containers: dict[str, str]  # id -> name
    devices: frozenset[str] | None  # UUIDs; None where the pod has GPUs and nobody says which


class PodsHere:
    """`refresh` takes in what has changed; it never raises, and never waits long."""

    def __init__(self, port: Port | None, node: str) -> None:
        """Without a port no pod is known, and none can be."""
        self.problem = "" if port is None else "the pods of this node are not known yet"
        self.known: dict[str, Named] = {}
        self._port = port
        self._fields = f"spec.nodeName={node}"
        self._watch: Watch | None = None

    def refresh(self) -> None:
        if self._port is None:
            return
        try:
            if self._watch is None:
                self._begin()
            self._take()
        except Gone:
            self._end("")
            self.refresh_again()
        except ApiError as error:
            self._end(f"the pods of this node cannot be read: {error}")

    def refresh_again(self) -> None:
        """After a watch that was too old: from a fresh list, once."""
        try:
            self._begin()
        except ApiError as error:
            self._end(f"the pods of this node cannot be read: {error}")

    def _begin(self) -> None:
        assert self._port is not None
        page = self._port.list(kinds.POD, fields=self._fields)
        self.known = {}
        for pod in page.items:
            self._put(pod)
        self._watch = self._port.watch(
            kinds.POD, resource_version=page.resource_version, fields=self._fields
        )
        self.problem = ""

    def _take(self) -> None:
        assert self._watch is not None
        for _ in range(_MOST_EVENTS):
            event = self._watch.next(0.0)
            if event is None:
                return
            if event.type == "DELETED":
                self.known.pop(event.object["metadata"].get("uid") or "", None)
            elif event.type != "BOOKMARK":
                self._put(event.object)

    def _put(self, pod: Object) -> None:
        uid = pod["metadata"].get("uid") or ""
        if (pod.get("status") or {}).get("phase") in _ENDED:
            self.known.pop(uid, None)
            return
        self.known[uid] = named(pod)

    def _end(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem
        if self._watch is not None:
            with contextlib.suppress(ApiError, OSError):
                self._watch.close()
            self._watch = None

    def close(self) -> None:
        self._end("")


def named(pod: Object) -> Named:
    meta = pod["metadata"]
    status = pod.get("status") or {}
    containers: dict[str, str] = {}
    devices: set[str] = set()
    for part in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for one in status.get(part) or ():
            found = str(one.get("containerID") or "").rpartition("//")[2]
            if found:
                containers[found] = str(one.get("name") or "")
            devices.update(_given(one))
    text = (meta.get("annotations") or {}).get(names.GPU_DEVICES)
    if text:
        devices.update(part.rpartition("=")[2] for part in str(text).split(","))
    asked = gpus(pod) if not shares(pod) else float(len(shares(pod)))
    claims = bool((pod.get("spec") or {}).get("resourceClaims"))
    told = len(devices) >= asked and not (claims and not devices)
    return Named(
        meta.get("namespace") or "",
        meta["name"],
        containers,
        frozenset(devices) if told else None,
    )


def _given(status: Object) -> list[str]:
    found: list[str] = []
    for held in status.get("allocatedResourcesStatus") or ():
        name = str(held.get("name") or "")
        if name in names.GPU_RESOURCES or name.startswith(names.MIG_PREFIX):
            found += [str(r.get("resourceID") or "") for r in held.get("resources") or ()]
    # A card that the device plugin shares by time has a number behind its UUID.
    return [device.partition("::")[0] for device in found if device]

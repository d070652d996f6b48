"""Nodes that reject pods again and again take no more for a while.

A kubelet that refuses what was bound to it (a dead device, a broken device plugin) would be chosen
again at once, being the emptiest, and every gang sent there would lose a member. The mark is on the
Node itself, with its reason and its end, so people see it and a restart keeps it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import epoch, rfc3339
from kai_ray.cluster.port import Key, NotFound, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.events import Events

#: What a kubelet says of a pod that it will not run; OutOf... comes with the resource's name.
_REJECTED = ("UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "TopologyAffinityError")


class Quarantine:
    """Keys: the name of a node that is to be marked, or whose time may be over."""

    name = "quarantine"

    def __init__(self, config: ControlConfig, events: Events) -> None:
        self._config = config
        self._events = events
        self._rejections: dict[str, deque[tuple[float, str]]] = {}

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._nodes = runtime.informer(kinds.NODE)
        self._nodes.on_change(self._node_changed)
        runtime.informer(kinds.POD).on_change(self._pod_changed)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._rejections.pop(old["metadata"]["name"], None)
        elif marked_until(new) is not None:
            self._runtime.enqueue(self.name, new["metadata"]["name"])

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        reason = rejected(new)
        if new is None or not reason or old is None or rejected(old):
            return  # what was so when we came may be long ago
        node = new["spec"].get("nodeName") or ""
        seen = self._rejections.setdefault(node, deque())
        now = self._runtime.clock.now()
        seen.append((now, f"{reason}: {new['status'].get('message') or ''}"))
        while seen and seen[0][0] <= now - self._config.rejection_window_s:
            seen.popleft()
        if len(seen) >= self._config.rejections:
            self._runtime.enqueue(self.name, node)

    def reconcile(self, key: str) -> float | None:
        node, now = self._nodes.get(key), self._runtime.clock.now()
        if node is None:
            return None
        until = marked_until(node)
        if until is not None:
            if until > now:
                return until - now
            self._annotate(key, {names.QUARANTINED_UNTIL: None, names.QUARANTINE_REASON: None})
            return None
        seen = self._rejections.get(key)
        if seen is None or len(seen) < self._config.rejections:
            return None
        said = f"{len(seen)} pods rejected, the last one: {seen[-1][1]}"[:512]
        del self._rejections[key]
        until = now + self._config.quarantine_s
        marks = {names.QUARANTINED_UNTIL: rfc3339(until), names.QUARANTINE_REASON: said}
        self._annotate(key, marks)
        uid = node["metadata"].get("uid") or ""
        text = f"takes no more pods until {rfc3339(until)}: {said}"
        self._events.warn(kinds.NODE, Key("", key), uid, "Quarantined", text)
        return self._config.quarantine_s

    def _annotate(self, name: str, notes: Mapping[str, str | None]) -> None:
        patch = {"metadata": {"annotations": dict(notes)}}
        try:
            self._nodes.remember(self._runtime.port.patch(kinds.NODE, name, patch))
        except NotFound:
            return


def rejected(pod: Object | None) -> str:
    """The reason for which a kubelet refused a pod; "" for any other pod."""
    status = (pod or {}).get("status") or {}
    reason = status.get("reason")
    if status.get("phase") != "Failed" or not isinstance(reason, str):
        return ""
    return reason if reason in _REJECTED or reason.startswith("OutOf") else ""


def marked_until(node: Object) -> float | None:
    """Until when a node is in quarantine; a time that cannot be read is over."""
    text = (node["metadata"].get("annotations") or {}).get(names.QUARANTINED_UNTIL)
    if not text:
        return None
    try:
        return epoch(text)
    except (ValueError, TypeError):
        return 0.0

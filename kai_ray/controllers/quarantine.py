"""Nodes that reject pods again and again take no more for a while.

A kubelet that refuses what was bound to it (a dead device, a broken device plugin) would be chosen
again at once, being the emptiest, and every gang sent there would lose a member. So would a node to
which nothing can be bound. The mark is on the Node itself, with its reason and its end, so people
see it and a restart keeps it.

A bind that fails may be the pod's own making, the API server's or the node's. It is the node's
where several gangs failed there and nowhere else, none succeeded there since, and others did
elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import Key, NotFound, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.events import Events
from kai_ray.controllers.rejections import moment, rejected
from kai_ray.encode.gpu_table import groups_of
from kai_ray.encode.settings import in_shard

__all__ = ["Quarantine", "marked_until", "rejected"]


class _Rejection(NamedTuple):
    at_s: float
    device: str  # that the pod was to share; "" = none
    said: str


class _Bind(NamedTuple):
    at_s: float
    gang: Key
    said: str


_Blame = TypeVar("_Blame", _Rejection, _Bind)


class Quarantine:
    """Keys: the name of a node that is to be marked, or whose time may be over."""

    name = "quarantine"

    def __init__(self, config: ControlConfig, events: Events) -> None:
        self._config = config
        self._events = events
        self._rejections: dict[str, deque[_Rejection]] = {}
        self._binds: dict[str, deque[_Bind]] = {}  # that failed, by node
        self._bound: dict[str, float] = {}  # node -> when a bind to it succeeded last

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._nodes = runtime.informer(kinds.NODE)
        self._nodes.on_change(self._node_changed)
        runtime.informer(kinds.POD).on_change(self._pod_changed)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            for book in (self._rejections, self._binds, self._bound):
                book.pop(old["metadata"]["name"] if old is not None else "", None)
        elif marked_until(new) is not None and in_shard(new, self._config.encode):
            self._runtime.enqueue(self.name, new["metadata"]["name"])

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None or old is None:
            return  # what was so when we came may be long ago
        node = new["spec"].get("nodeName") or ""
        if node and not old["spec"].get("nodeName"):
            self._bound[node] = self._runtime.clock.now()
            self._binds.pop(node, None)
        reason = rejected(new)
        if not reason or rejected(old):
            return
        seen, now = self._rejections.setdefault(node, deque()), self._runtime.clock.now()
        device = next(iter(groups_of(new)), "")
        said = f"{reason}: {new['status'].get('message') or ''}"
        self._note(seen, _Rejection(now, device, said))
        if self._why(node):
            self._runtime.enqueue(self.name, node)

    def bind_failed(self, node: str, gang: Key, said: str) -> None:
        """A bind that the API server or the node refused."""
        now = self._runtime.clock.now()
        for other, binds in self._binds.items():
            if other != node:  # it fails elsewhere too: the fault is its own
                alike = [bind for bind in binds if bind.gang != gang]
                if len(alike) < len(binds):
                    self._binds[other] = deque(alike)
                    gang = Key("", "")
        if gang.name:
            self._note(self._binds.setdefault(node, deque()), _Bind(now, gang, said))
            if self._why(node):
                self._runtime.enqueue(self.name, node)

    def _note(self, seen: deque[_Blame], one: _Blame) -> None:
        seen.append(one)
        while seen and seen[0].at_s <= one.at_s - self._config.rejection_window_s:
            seen.popleft()

    def _why(self, node: str) -> str:
        """What the node did; "" where it did not do enough."""
        seen = self._rejections.get(node, deque[_Rejection]())
        one_device = len({r.device for r in seen}) == 1 and seen[0].device if seen else ""
        if len(seen) >= self._config.rejections and not one_device:  # see bad_devices
            return f"{len(seen)} pods rejected, the last one: {seen[-1].said}"
        binds = self._binds.get(node, deque[_Bind]())
        gangs = {bind.gang for bind in binds}
        if len(gangs) < self._config.rejections:
            return ""
        elsewhere = (at for other, at in self._bound.items() if other != node)
        if not any(at >= binds[0].at_s for at in elsewhere):
            return ""
        return f"{len(gangs)} gangs could not be bound to it, the last one: {binds[-1].said}"

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
        said = self._why(key)[:512]
        if not said or not in_shard(node, self._config.encode):
            return None
        self._rejections.pop(key, None)
        self._binds.pop(key, None)
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


def marked_until(node: Object) -> float | None:
    """Until when a node is in quarantine; a time that cannot be read is over."""
    text = (node["metadata"].get("annotations") or {}).get(names.QUARANTINED_UNTIL)
    return moment(text) if text else None

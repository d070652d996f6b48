"""Events on objects, one per change, counted when the same thing happens again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import (
    AlreadyExists,
    ApiError,
    Key,
    NotFound,
    Object,
    Resource,
    Write,
    key_of,
)
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.owners import Owner, above, top_owner

_KEPT = 20_000
_BATCH = 256
_LONGEST = 1024


@dataclass(slots=True)
class _Event:
    """What is to be said, or has been said, of one object for one reason."""

    regarding: Object
    type: str
    reason: str
    message: str
    first_s: float
    last_s: float
    count: int = 1
    known: bool = False  # the API server has it
    sent: int = 0  # the count it has


#: (gang, reason word, message, beneficiary, pods, whether nothing of the gang stays)
Departed = Callable[[Key, str, str, "Key | None", int, bool], None]


class Events:
    """Controller with the one key "flush": events are collected and sent side by side.

    An event is no record: one that cannot be written is dropped, never in the way of work.
    """

    name = "events"

    def __init__(self) -> None:
        self._events: OrderedDict[Key, _Event] = OrderedDict()
        self._due: dict[Key, None] = {}
        self._flying: set[Key] = set()
        self._above: OrderedDict[Owner, Owner] = OrderedDict()
        self._departed: tuple[Departed, ...] = ()
        self._runtime: Runtime | None = None

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def on_evicted(self, listener: Departed) -> None:
        """One more who is told which gang had to leave for whom."""
        self._departed = (*self._departed, listener)

    def departed(
        self, group: Key, reason: str, message: str, whom: Key | None, pods: int, whole: bool
    ) -> None:
        """Tells the listeners that pods of a gang have to leave, by a rule, for another gang."""
        for listener in self._departed:
            listener(group, reason, message, whom, pods, whole)

    def tell(self, group: Object, reason: str, message: str, *, warning: bool = False) -> None:
        """Notes that something happened to a gang: on its PodGroup and on the user's own object."""
        uid = group["metadata"].get("uid") or ""
        self.say(kinds.POD_GROUP, key_of(group), uid, reason, message, warning=warning)
        owner = top_owner(group)
        if owner is None or self._runtime is None:
            return
        top = self._above.get(owner)
        if top is None:
            top = self._above[owner] = above(self._read, owner)
            if len(self._above) > _KEPT:
                self._above.popitem(last=False)
        self.say(top.resource, top.key, top.uid, reason, message, warning=warning)

    def _read(self, resource: Resource, name: str, namespace: str) -> Object:
        """Of pods by the thousand only the cache is asked, where it knows them."""
        assert self._runtime is not None
        cached = None
        if resource == kinds.POD:
            cached = self._runtime.informer(kinds.POD).get(name, namespace)
        return cached or self._runtime.port.get(resource, name, namespace)

    def warn(self, resource: Resource, key: Key, uid: str, reason: str, message: str) -> None:
        self.say(resource, key, uid, reason, message, warning=True)

    def say(
        self,
        resource: Resource,
        key: Key,
        uid: str,
        reason: str,
        message: str,
        *,
        warning: bool = False,
    ) -> None:
        """Notes that something happened to an object; said again, it is counted."""
        if self._runtime is None:
            return
        now = self._runtime.clock.now()
        # Cluster-scoped objects have their events in the namespace "default", as in Kubernetes.
        slot = Key(key.namespace or "default", _name(resource, key, uid, reason))
        found = self._events.get(slot)
        if found is None:
            found = _Event(
                regarding={
                    "apiVersion": resource.api_version,
                    "kind": resource.kind,
                    "name": key.name,
                    **({"namespace": key.namespace} if key.namespace else {}),
                    **({"uid": uid} if uid else {}),
                },
                type="Warning" if warning else "Normal",
                reason=reason,
                message=message[:_LONGEST],
                first_s=now,
                last_s=now,
            )
            self._events[slot] = found
            if len(self._events) > _KEPT:
                gone, _ = self._events.popitem(last=False)
                self._due.pop(gone, None)
        else:
            found.count += 1
            found.last_s = now
            found.message = message[:_LONGEST]
        self._due[slot] = None
        self._runtime.enqueue(self.name, "flush")

    def reconcile(self, key: str) -> float | None:
        slots = [slot for slot in self._due if slot not in self._flying]
        slots = slots[: max(0, _BATCH - len(self._flying))]
        for slot in slots:
            del self._due[slot]
        self._send([s for s in slots if s in self._events])
        return 0.0 if self._due and not self._flying else None

    def _send(self, slots: list[Key]) -> None:
        assert self._runtime is not None
        port = self._runtime.port
        writes = []
        for slot in slots:
            event = self._events[slot]
            if event.known:
                patch = self._later(event)
                writes.append(Write(port.patch, (kinds.EVENT, slot.name, patch, slot.namespace)))
            else:
                writes.append(Write(port.create, (kinds.EVENT, self._object(slot, event))))
        if writes:
            self._flying.update(slots)
            self._runtime.post(writes, partial(self._sent, slots))

    def _sent(self, slots: list[Key], outcomes: list[Any]) -> None:
        assert self._runtime is not None
        self._flying.difference_update(slots)
        for slot, outcome in zip(slots, outcomes, strict=True):
            event = self._events.get(slot)
            if event is None:
                continue
            if isinstance(outcome, AlreadyExists):
                event.known = True
                self._continue(slot, event)
            elif isinstance(outcome, NotFound):
                del self._events[slot]
            elif not isinstance(outcome, ApiError):
                event.known = True
        if self._due:
            self._runtime.enqueue(self.name, "flush")

    def _continue(self, slot: Key, event: _Event) -> None:
        """One from before a restart is there: go on counting."""
        assert self._runtime is not None
        try:
            found = self._runtime.port.get(kinds.EVENT, slot.name, slot.namespace)
            event.count += int(found.get("count") or 1)
            self._runtime.port.patch(kinds.EVENT, slot.name, self._later(event), slot.namespace)
        except ApiError:
            return

    def _later(self, event: _Event) -> Object:
        return {
            "count": event.count,
            "message": event.message,
            "lastTimestamp": rfc3339(event.last_s),
        }

    def _object(self, slot: Key, event: _Event) -> Object:
        made: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": slot.name, "namespace": slot.namespace},
            "involvedObject": event.regarding,
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": names.SCHEDULER_NAME},
            "firstTimestamp": rfc3339(event.first_s),
            "lastTimestamp": rfc3339(event.last_s),
            "count": event.count,
            "reportingComponent": names.SCHEDULER_NAME,
            "reportingInstance": names.SCHEDULER_NAME,
        }
        return made


def _name(resource: Resource, key: Key, uid: str, reason: str) -> str:
    text = "|".join((resource.kind, key.namespace, key.name, uid, reason))
    return f"{key.name[:180]}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"

"""Gangs that run below their minimum: left alone for a grace period, then they go as a whole.

The time since when is kept on the PodGroup, so a restart does not grant the grace anew. How a gang
goes is its kind's rule (suspend.py); where there is none, its pods are deleted and made again by
whoever made them. Bare pods that only wait for a place are never deleted.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import epoch, rfc3339
from kai_ray.cluster.port import ApiError, Key, NotFound, Object, Resource, Write
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.cycle import Cycle, members
from kai_ray.controllers.events import Events
from kai_ray.controllers.owners import controller, top_owner
from kai_ray.controllers.suspend import SWITCH, can_suspend, suspended, switch
from kai_ray.encode import Encoder
from kai_ray.api.durations import parse_duration
from kai_ray.scheduler.gang_state import leaf_counts, met, ready
from kai_ray.scheduler.snapshot import ALLOCATED, Bools, TaskState

_HOLD_FIRST_S = 10.0
_HOLD_LAST_S = 300.0
_RESUME, _RELEASE = "resume ", "release "
_BY_KIND = {resource.kind: resource for resource in SWITCH}


class StaleGangs:
    """Keys: a gang "namespace/name", "release namespace/name" and "resume Kind namespace/name"."""

    name = "stale-gangs"

    def __init__(self, config: ControlConfig, encoder: Encoder, events: Events) -> None:
        self._config = config
        self._encoder = encoder
        self._events = events
        self._cycle: Cycle | None = None
        self._stale: dict[Key, int] = {}  # -> row in the last cycle
        self._since: dict[Key, float] = {}
        self._holding: dict[Key, float] = {}

    def why_held(self, group: Key) -> str | None:
        """Why a gang that was sent away does not start yet; None if it is free to."""
        until_s = self._holding.get(group)
        if until_s is None:
            return None
        return f"it ran below its minimum and was sent away; not before {rfc3339(until_s)}"

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._groups = runtime.informer(kinds.POD_GROUP)
        self._pods = runtime.informer(kinds.POD)
        for resource in SWITCH:
            informer = runtime.informer(resource)
            informer.on_change(lambda old, new, resource=resource: self._seen(resource, new))

    def _seen(self, resource: Resource, new: Object | None) -> None:
        """A workload that was suspended here is resumed in time, also after a restart."""
        if new is None:
            return
        meta = new["metadata"]
        due = (meta.get("annotations") or {}).get(names.RESUME_AT)
        if due:
            wait = max(0.0, _moment(due, 0.0) - self._runtime.clock.now())
            text = f"{_RESUME}{resource.kind} {meta.get('namespace') or ''}/{meta['name']}"
            self._runtime.enqueue(self.name, text, wait)

    def observe(self, cycle: Cycle) -> None:
        self._cycle = cycle
        now = self._runtime.clock.now()
        gangs = cycle.encoded.names.gangs
        rows = np.flatnonzero(_below_minimum(cycle))
        stale = {gangs[row]: row for row in rows.tolist()}
        for key in stale.keys() - self._stale.keys():
            since = self._marked(key)
            self._since[key] = now if since is None else since
            grace = self._grace(key)
            if grace >= 0:
                due = max(0.0, self._since[key] + grace - now)
                self._runtime.enqueue(self.name, _text(key), due)
            if since is None:
                self._runtime.enqueue(self.name, _text(key))
        for key in self._since.keys() - stale.keys():
            del self._since[key]
            if self._marked(key) is not None:
                self._runtime.enqueue(self.name, _text(key))
        self._stale = stale

    def reconcile(self, key: str) -> float | None:
        if key.startswith(_RELEASE):
            group = _key(key.removeprefix(_RELEASE))
            self._holding.pop(group, None)
            self._encoder.release(group)
            self._runtime.enqueue("scheduler", "cycle")
            return None
        if key.startswith(_RESUME):
            kind, _, rest = key.removeprefix(_RESUME).partition(" ")
            return self._resume(_BY_KIND[kind], _key(rest))
        return self._gang(_key(key))

    def _gang(self, key: Key) -> float | None:
        group = self._groups.get(key.name, key.namespace)
        if group is None:
            return None
        now, since = self._runtime.clock.now(), self._since.get(key)
        if since is None:
            if self._marked(key) is not None:
                self._annotate(key, {names.STALE_SINCE: None})
            return None
        if self._marked(key) is None:
            self._annotate(key, {names.STALE_SINCE: rfc3339(since)})
        grace = self._grace(key)
        if grace < 0:
            return None
        if now < since + grace:
            return since + grace - now
        self._evict(key, group, grace)
        return max(1.0, grace)

    def _evict(self, key: Key, group: Object, grace: float) -> None:
        pods = self._placed(key)
        if not pods or self._waits_bare(key, pods):
            return
        times = int(_annotations(group).get(names.STALE_EVICTIONS) or 0) + 1
        hold = min(_HOLD_LAST_S, _HOLD_FIRST_S * 2 ** min(times - 1, 10))
        now = self._runtime.clock.now()
        workload = self._suspendable(group)
        if workload is not None:
            self._suspend(workload, now + hold)
        else:
            self._holding[key] = now + hold
            self._encoder.hold(key)
            self._runtime.enqueue(self.name, _RELEASE + _text(key), hold)
            self._delete(pods)
        self._annotate(
            key,
            {
                names.STALE_SINCE: None,
                names.LAST_EVICTION: rfc3339(now),
                names.STALE_EVICTIONS: str(times),
            },
        )
        self._since.pop(key, None)
        self._stale.pop(key, None)
        self._tell(key, group, grace)

    def _suspendable(self, group: Object) -> tuple[Resource, Key] | None:
        for owner in (top_owner(group), controller(group)):
            if owner is None or owner.resource not in SWITCH:
                continue
            found = self._runtime.informer(owner.resource).get(owner.key.name, owner.key.namespace)
            if found is not None and can_suspend(owner.resource, found):
                return owner.resource, owner.key
        return None

    def _suspend(self, workload: tuple[Resource, Key], until_s: float) -> None:
        resource, key = workload
        patch = switch(resource, True)
        patch["metadata"] = {"annotations": {names.RESUME_AT: rfc3339(until_s)}}
        self._runtime.port.patch(resource, key.name, patch, key.namespace)

    def _resume(self, resource: Resource, key: Key) -> float | None:
        workload = self._runtime.informer(resource).get(key.name, key.namespace)
        due = _annotations(workload).get(names.RESUME_AT) if workload else None
        if workload is None or due is None:
            return None
        left = _moment(due, 0.0) - self._runtime.clock.now()
        if left > 0:
            return left
        # Whoever has resumed it in the meantime is right; the mark alone goes then.
        patch = switch(resource, False) if suspended(resource, workload) else {}
        patch["metadata"] = {"annotations": {names.RESUME_AT: None}}
        self._runtime.port.patch(resource, key.name, patch, key.namespace)
        return None

    def _delete(self, pods: list[Object]) -> None:
        port = self._runtime.port
        writes = [
            Write(
                port.delete,
                (kinds.POD, p["metadata"]["name"], p["metadata"].get("namespace") or ""),
                {"uid": p["metadata"].get("uid") or ""},
            )
            for p in pods
        ]
        for outcome in port.batch(writes):
            if isinstance(outcome, ApiError) and not isinstance(outcome, NotFound):
                raise outcome

    def _placed(self, key: Key) -> list[Object]:
        """Pods of the gang that have a node, as known now."""
        row = self._stale.get(key)
        if row is None or self._cycle is None or self._cycle.encoded.names.gang(row) != key:
            return []
        found = [self._pods.get(k.name, k.namespace) for k in members(self._cycle.encoded, row)]
        return [
            p
            for p in found
            if p is not None
            and p["spec"].get("nodeName")
            and not p["metadata"].get("deletionTimestamp")
        ]

    def _waits_bare(self, key: Key, pods: list[Object]) -> bool:
        """Nobody would make these pods again, and the missing members are there and wait."""
        if any(p["metadata"].get("ownerReferences") for p in pods):
            return False
        assert self._cycle is not None
        snapshot = self._cycle.encoded.snapshot
        # A member that is held back after failed binds is gated here, and waits all the same.
        state = snapshot.tasks.state.copy()
        state[state == TaskState.GATED] = TaskState.PENDING
        tasks = dataclasses.replace(snapshot.tasks, state=state)
        complete = ready(snapshot.subgroups, snapshot.gangs.root, tasks)
        return bool(complete[self._stale[key]])

    def _grace(self, key: Key) -> float:
        group = self._groups.get(key.name, key.namespace) or {}
        text = (group.get("spec") or {}).get("stalenessGracePeriod")
        own = parse_duration(text) if isinstance(text, str) else None
        return self._config.staleness_grace_s if own is None else own

    def _marked(self, key: Key) -> float | None:
        text = _annotations(self._groups.get(key.name, key.namespace)).get(names.STALE_SINCE)
        moment = _moment(text, math.nan) if text else math.nan
        return None if math.isnan(moment) else moment

    def _annotate(self, key: Key, values: dict[str, Any]) -> None:
        patch = {"metadata": {"annotations": values}}
        try:
            self._groups.remember(
                self._runtime.port.patch(kinds.POD_GROUP, key.name, patch, key.namespace)
            )
        except NotFound:
            return

    def _tell(self, key: Key, group: Object, grace: float) -> None:
        message = f"ran below its minimum for {grace:g} s: the gang starts anew as a whole"
        uid = group["metadata"].get("uid") or ""
        self._events.warn(kinds.POD_GROUP, key, uid, "StaleGang", message)
        owner = top_owner(group)
        if owner is not None:
            self._events.warn(owner.resource, owner.key, owner.uid, "StaleGang", message)


def _below_minimum(cycle: Cycle) -> Bools:
    """[G] gangs that hold pods but, with those that have succeeded, not their minimum."""
    snapshot = cycle.encoded.snapshot
    tasks = dataclasses.replace(snapshot.tasks, state=cycle.state)
    held = leaf_counts(snapshot.subgroups, tasks, ALLOCATED)
    done = leaf_counts(snapshot.subgroups, tasks, (TaskState.SUCCEEDED,))
    enough = met(snapshot.subgroups, held + done)[snapshot.gangs.root]
    holds = np.bincount(snapshot.subgroups.gang, weights=held, minlength=snapshot.gangs.count) > 0
    return holds & ~enough


def _annotations(obj: Object | None) -> dict[str, str]:
    return ((obj or {}).get("metadata") or {}).get("annotations") or {}


def _moment(text: str, default: float) -> float:
    try:
        return epoch(text)
    except ValueError:
        return default


def _text(key: Key) -> str:
    return f"{key.namespace}/{key.name}"


def _key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    return Key(namespace, name)

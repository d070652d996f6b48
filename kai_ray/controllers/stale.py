"""Since when gangs run below their minimum, and until when those that were sent away stay away.

The core decides that a stale gang goes (scheduler/actions/stale_gang.py), the evictor sends it.
Here is only what both need remembered, on the PodGroup: a restart does not grant the grace anew.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import epoch, rfc3339
from kai_ray.cluster.port import Key, NotFound, Object, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.cycle import Cycle
from kai_ray.encode import Encoder
from kai_ray.scheduler.actions.stale_gang import stale_gangs

_RELEASE = "release "


class StaleGangs:
    """Keys: a gang "namespace/name" to be marked or not, "release namespace/name"."""

    name = "stale-gangs"

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._stale: set[Key] = set()
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
        self._groups.on_change(self._group_changed)

    def _group_changed(self, old: Object | None, new: Object | None) -> None:
        """A gang with a time to come back stays away until then, also after a restart."""
        if new is None:
            if old is not None:
                self._let_go(key_of(old))
            return
        due = _moment(_annotations(new).get(names.RESUME_AT))
        key, now = key_of(new), self._runtime.clock.now()
        if due <= now or self._holding.get(key) == due:
            return
        self._holding[key] = due
        self._encoder.hold(key)
        self._runtime.enqueue(self.name, _RELEASE + _text(key), due - now)

    def observe(self, cycle: Cycle) -> None:
        encoded = cycle.encoded
        snapshot = encoded.snapshot
        tasks = dataclasses.replace(snapshot.tasks, state=cycle.state)
        rows = np.flatnonzero(stale_gangs(dataclasses.replace(snapshot, tasks=tasks)))
        stale = {encoded.names.gang(row) for row in rows.tolist()}
        now = self._runtime.clock.now()
        for key in stale - self._stale:
            self._since[key] = now
            self._runtime.enqueue(self.name, _text(key))
        marked = snapshot.gangs.stale_since_s
        if marked is not None:
            left = {encoded.names.gang(row) for row in np.flatnonzero(~np.isnan(marked)).tolist()}
            for key in left - stale:
                self._runtime.enqueue(self.name, _text(key))
        self._stale = stale

    def reconcile(self, key: str) -> float | None:
        if key.startswith(_RELEASE):
            group = _key(key.removeprefix(_RELEASE))
            left = self._holding.get(group, 0.0) - self._runtime.clock.now()
            if left > 0:
                return left
            self._let_go(group)
            return None
        group = _key(key)
        found = self._groups.get(group.name, group.namespace)
        if found is None:
            return None
        marked = names.STALE_SINCE in _annotations(found)
        if group in self._stale and not marked:
            since = self._since.get(group, self._runtime.clock.now())
            self._annotate(group, {names.STALE_SINCE: rfc3339(since)})
        elif group not in self._stale and marked:
            self._annotate(group, {names.STALE_SINCE: None})
        return None

    def _let_go(self, group: Key) -> None:
        if self._holding.pop(group, None) is not None:
            self._encoder.release(group)
            self._runtime.enqueue("scheduler", "cycle")

    def _annotate(self, key: Key, values: dict[str, Any]) -> None:
        patch = {"metadata": {"annotations": values}}
        try:
            self._groups.remember(
                self._runtime.port.patch(kinds.POD_GROUP, key.name, patch, key.namespace)
            )
        except NotFound:
            return


def _annotations(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _moment(text: str | None) -> float:
    if not text:
        return 0.0
    try:
        return epoch(text)
    except (ValueError, TypeError):
        return 0.0


def _text(key: Key) -> str:
    return f"{key.namespace}/{key.name}"


def _key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    return Key(namespace, name)

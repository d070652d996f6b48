"""Takes holds off PodGroups once they have served or have run out."""

from __future__ import annotations

import numpy as np

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key, NotFound
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.cycle import Cycle
from kai_ray.controllers.events import Events
from kai_ray.encode import Encoder
from kai_ray.encode.eviction_rows import made_again
from kai_ray.scheduler.snapshot import TaskState


class Holds:
    """Keys: a gang "namespace/name" whose hold is over."""

    name = "holds"

    def __init__(self, encoder: Encoder, events: Events) -> None:
        self._encoder = encoder
        self._events = events
        self._waiting: set[Key] = set()
        self._seen: dict[Key, float] = {}

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._groups = runtime.informer(kinds.POD_GROUP)

    def observe(self, cycle: Cycle) -> None:
        until_s = cycle.encoded.snapshot.gangs.hold_until_s
        if until_s is None:
            return
        tasks, now = cycle.encoded.snapshot.tasks, self._runtime.clock.now()
        waits = (tasks.nominated >= 0) & (cycle.state == TaskState.PENDING) & (tasks.gang >= 0)
        gangs = np.unique(tasks.gang[waits]).tolist()
        self._waiting = {cycle.encoded.names.gang(row) for row in gangs}
        # Only holds that this cycle has seen: one that it has just made is not over yet.
        self._seen = {}
        for row in np.flatnonzero(~np.isnan(until_s)).tolist():
            key = cycle.encoded.names.gang(row)
            self._seen[key] = float(until_s[row])
            if self._to_come(cycle, row, key):
                self._waiting.add(key)
            if key not in self._waiting or until_s[row] <= now:
                self._runtime.enqueue(self.name, f"{key.namespace}/{key.name}")

    def _to_come(self, cycle: Cycle, gang: int, key: Key) -> bool:
        """Whether pods that were moved are still to be made again."""
        facts = self._encoder.evictions.facts.get(key)
        if facts is None or facts.hold is None or not facts.hold.moves:
            return False
        again = made_again(cycle.encoded.snapshot.tasks, gang, facts.hold.made_s)
        return len(again) < len(facts.hold.moves)

    def reconcile(self, key: str) -> float | None:
        namespace, _, name = key.partition("/")
        group = self._groups.get(name, namespace)
        found = self._encoder.evictions.facts.get(Key(namespace, name))
        if group is None or found is None or found.hold is None:
            return None
        if self._seen.get(Key(namespace, name)) != found.hold.until_s:
            return None  # another one, made since
        now = self._runtime.clock.now()
        late = Key(namespace, name) in self._waiting
        if late and found.hold.until_s > now:
            return found.hold.until_s - now
        patch = {"metadata": {"annotations": {names.HOLD: None}}}
        try:
            answer = self._runtime.port.patch(kinds.POD_GROUP, name, patch, namespace)
        except NotFound:
            return None
        self._groups.remember(answer)
        if late and not found.hold.moves:
            text = "the room that others left for it is free for all: it did not start in time"
            uid = group["metadata"].get("uid") or ""
            self._events.warn(kinds.POD_GROUP, Key(namespace, name), uid, "HoldExpired", text)
        return None

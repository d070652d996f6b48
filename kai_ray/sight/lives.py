"""The lives of jobs: one stream of events, from PodGroups, cycles and evictions.

PodGroups tell who a job is, why it waits and how it ended; cycles tell where it got its places,
how it grew and shrank (running.py); the evictor tells who had to leave for whom. Work is done for
gangs that changed only. What a start of the process finds is told again and marked so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import epoch
from kai_ray.cluster.port import Key, Object, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.conditions import find
from kai_ray.controllers.eviction_words import EVICTED, NOTICED
from kai_ray.sight.gone import GONE, WITHOUT, Gone
from kai_ray.sight.life import Life, life_of, queue_of, refresh
from kai_ray.sight.roll import Roll, Subscriber
from kai_ray.sight.running import LOST, Running
from kai_ray.sight.workload import Workloads

BEGIN = "begin"


class Lives:
    """Part of Sight, with its keys "begin", "lost ns/name", "gone ns/name", "without gangs"."""

    def __init__(self, controller: str, figures: Callable[[Key], list[int] | None]) -> None:
        """`figures` are those of a gang after the last cycle (facts.py)."""
        self._roll = Roll(controller)
        self._workloads = Workloads()
        self._running = Running(self._roll, self._workloads, figures)
        self._gone = Gone(self._roll, self._workloads)
        self.observe, self.evicted = self._running.observe, self._running.evicted
        self.of, self.of_job, self.all = self._roll.of, self._roll.of_job, self._roll.all
        self.reasons = self._roll.reasons

    def setup(self, runtime: Runtime) -> None:
        for part in (self._roll, self._workloads, self._running):
            part.setup(runtime)
        self._runtime = runtime
        self._begun = False
        self._since_s = int(runtime.clock.now()) if runtime.leads else math.inf
        self._roll.due(BEGIN, None, 0.0)

    def begin(self) -> None:
        """Looks at PodGroups from now on: the caches are full, so it is known whose they are."""
        if self._begun:
            return
        self._begun = True
        # As exact as timestamps of objects. What a standby has seen is told again.
        self._since_s = int(min(self._since_s, self._runtime.clock.now()))
        self._runtime.informer(kinds.POD_GROUP).on_change(self._seen)

    @property
    def started(self) -> int:
        """Gangs so far, each time that they start."""
        return self._running.started

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Calls back on the loop's thread; whoever is called must return at once."""
        return self._roll.subscribe(callback)

    def warn(self, group: Key, reason: str, message: str) -> None:
        """Tells that a job holds what it does not use, or the like."""
        life = self._roll.of(group)
        if life is not None:
            self._roll.tell(life, self._roll.now(), "warned", reason, message)

    def reconcile(self, key: str) -> float | None:
        if key == BEGIN:
            self.begin()
        elif key == WITHOUT:
            return self._gone.look_for_owners()
        what, _, name = key.partition(" ")
        namespace, _, name = name.partition("/")
        if what == LOST:
            self._running.settle(Key(namespace, name))
        elif what == GONE:
            self._gone.gone_for_good(Key(namespace, name))
        return None

    # ------------------------------------------------------------------ PodGroups

    def _seen(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self._gone.vanished(key_of(old))
            return
        key = key_of(new)
        life = self._roll.of(key)
        if life is not None and life.group_uid != (new["metadata"].get("uid") or ""):
            self._gone.vanished(key)
            life = None
        if life is None:
            self._appeared(key, new)
        else:
            self._changed(life, new)

    def _appeared(self, key: Key, group: Object) -> None:
        now = self._roll.now()
        created_s = min(now, _time(group["metadata"].get("creationTimestamp"), now))
        old = created_s < self._since_s
        life = life_of(group, key, self._workloads.behind(group, ask=not old), created_s)
        before = self._gone.again(life.uid)
        owner = self._workloads.of(life)
        made_s = _time(((owner or {}).get("metadata") or {}).get("creationTimestamp"), created_s)
        life.created_s = min(made_s, created_s)
        life.since_s = created_s
        if before is not None:
            life.starts, life.evictions = before.starts, before.evictions
        self._roll.put(life)
        if before is None and len(self._roll.of_job(life.uid)) == 1:
            self._roll.tell(life, life.created_s, "created", replayed=old)
        self._roll.tell(life, created_s, "grouped", replayed=old)
        self._changed(life, group, replayed=old)

    def _changed(self, life: Life, group: Object, replayed: bool = False) -> None:
        if life.phase == "ended":
            return
        self._roll.moves(life, queue_of(group))
        refresh(life, group)
        if replayed:
            self._catch_up(life, group)
        now = self._roll.now()
        finished = find(group, "Finished")
        if finished.get("status") == "True":
            at_s = _time(finished.get("lastTransitionTime"), now) if replayed else now
            word = "Failed" if finished.get("reason") == "WorkloadFailed" else "Succeeded"
            self._roll.end(life, at_s, word, finished.get("message") or "", replayed)
            return
        noticed = find(group, NOTICED)
        message = noticed.get("message") or "" if noticed.get("status") == "True" else ""
        if message != life.noticed:
            life.noticed = message
            if message:
                reason = noticed.get("reason") or ""
                self._roll.tell(life, now, "noticed", reason, message, replayed=replayed)
        scheduled = find(group, "Scheduled")
        if life.phase == "waiting" and scheduled.get("status") == "False":
            reason, message = scheduled.get("reason") or "", scheduled.get("message") or ""
            at_s = _time(scheduled.get("lastTransitionTime"), now) if replayed else now
            self._roll.waits(life, at_s, reason, message, replayed)

    def _catch_up(self, life: Life, group: Object) -> None:
        """What its PodGroup says of a gang that was there before this process."""
        notes = group["metadata"].get("annotations") or {}
        asked = (group.get("status") or {}).get("resourcesStatus") or {}
        life.gpus = _number((asked.get("requested") or {}).get(names.NVIDIA_GPU))
        evicted, scheduled = find(group, EVICTED), find(group, "Scheduled")
        last_s = _time(notes.get(names.LAST_START), None)
        life.starts = int(last_s is not None)
        if scheduled.get("status") == "True":
            life.phase = "started"
            life.since_s = _time(
                notes.get(names.LAST_START) or scheduled.get("lastTransitionTime"), life.created_s
            )
        elif evicted.get("status") == "True":
            life.evictions = life.starts = 1
            life.evicted_s = life.since_s = _time(
                notes.get(names.LAST_EVICTION) or evicted.get("lastTransitionTime"), life.created_s
            )
            words = (evicted.get("reason") or "", evicted.get("message") or "")
            self._roll.tell(life, life.since_s, "evicted", *words, replayed=True)


def _time(text: Any, otherwise: Any) -> Any:
    try:
        return epoch(text) if isinstance(text, str) and text else otherwise
    except ValueError:
        return otherwise


def _number(text: Any) -> float:
    try:
        return float(text or 0.0)
    except (TypeError, ValueError):
        return 0.0

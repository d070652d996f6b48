"""Times that queues set: the maximum run time of a gang, and the deadline of a drain.

Both are kept on the objects themselves, so that a restart changes nothing: the run time counts from
the PodGroup's last start, and that it is over is written on the PodGroup; a drain writes on its
Queue that the deadline has passed. The core then sends the gangs away like any others
(scheduler/dismissal.py), and they stay away until somebody takes the mark off.
"""

from __future__ import annotations

import numpy as np

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import ApiError, Conflict, Key, NotFound, Object, Resource
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.conditions import condition, find, merged
from kai_ray.controllers.cycle import Cycle
from kai_ray.controllers.events import Events
from kai_ray.encode.queue_policy import QueuePolicy
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import ALLOCATED, Bools, Floats

#: How long before its end a gang is warned: five minutes, or a tenth of the time if that is less.
_WARNING_S = 300.0
_HELD = np.array([int(s) for s in ALLOCATED])
ENDS_SOON, DRAINING = "MaxRunTime", "Draining"


class QueueDeadlines:
    """Controller with the one key "look"."""

    name = "queue-deadlines"

    def __init__(self, events: Events) -> None:
        self._events = events
        self._cycle: Cycle | None = None
        self._warned: dict[Key, float] = {}
        self._active = True

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._groups = runtime.informer(kinds.POD_GROUP)
        self._queues = runtime.informer(kinds.QUEUE)

    def observe(self, cycle: Cycle) -> None:
        self._cycle = cycle
        policies = cycle.encoded.policies
        active = any(p.max_run_time_s or p.drain_deadline_s is not None for p in policies)
        if active or self._active:  # the last look takes back what earlier ones said
            self._runtime.enqueue(self.name, "look")
        self._active = active

    def reconcile(self, key: str) -> float | None:
        cycle = self._cycle
        if cycle is None:
            return None
        now = self._runtime.clock.now()
        moments = [self._run_times(cycle, now), self._drains(cycle, now)]
        wait = min(moments) - now
        return None if wait == float("inf") else max(wait, 0.001)

    # ------------------------------------------------------------------ maximum run time

    def _run_times(self, cycle: Cycle, now: float) -> float:
        """Warns and ends gangs; when the next one is due."""
        encoded, gangs = cycle.encoded, cycle.encoded.snapshot.gangs
        limits = _limits(encoded.policies)
        if not np.isfinite(limits).any():
            return np.inf
        limit, end = limits[gangs.queue], run_ends(cycle)
        warn = end - np.minimum(_WARNING_S, limit / 10)
        for row in np.flatnonzero(end <= now).tolist():
            self._end(encoded.names.gang(row), float(limit[row]), now)
        for row in np.flatnonzero((warn <= now) & (end > now)).tolist():
            self._warn(encoded.names.gang(row), float(end[row]), now)
        later = np.concatenate([end[end > now], warn[warn > now]])
        return float(later.min(initial=np.inf))

    def _end(self, key: Key, limit: float, now: float) -> None:
        group = self._groups.get(key.name, key.namespace)
        if group is None or names.MAX_RUN_TIME_REACHED in _annotations(group):
            return
        note = {"metadata": {"annotations": {names.MAX_RUN_TIME_REACHED: rfc3339(now)}}}
        if self._patch(kinds.POD_GROUP, key, note):
            message = f"ran for {limit:g} s, the most its queue allows"
            self._events.tell(group, "MaxRunTimeReached", message, warning=True)

    def _warn(self, key: Key, end: float, now: float) -> None:
        group = self._groups.get(key.name, key.namespace)
        if group is None or self._warned.get(key) == end:
            return
        self._warned[key] = end
        if len(self._warned) > 10_000:
            self._warned.pop(next(iter(self._warned)))
        message = f"its queue ends it at {rfc3339(end)}"
        made = condition(ENDS_SOON, True, "EndsSoon", message, now=rfc3339(now))
        self._set_condition(kinds.POD_GROUP, key, group, made)
        self._events.tell(group, "MaxRunTimeNear", message, warning=True)

    # ------------------------------------------------------------------ drains

    def _drains(self, cycle: Cycle, now: float) -> float:
        """Marks queues whose deadline has passed; when the next one is due."""
        later = np.inf
        for row, policy in enumerate(cycle.encoded.policies):
            name = cycle.encoded.names.queue(row)
            queue = self._queues.get(name)
            due = policy.drain_deadline_s
            if queue is None or names.DRAIN_DEADLINE not in _annotations(queue) or due is None:
                if queue is not None and find(queue, DRAINING).get("status") == "True":
                    made = condition(DRAINING, False, "Open", "not drained", now=rfc3339(now))
                    self._set_condition(kinds.QUEUE, Key("", name), queue, made)
                continue
            self._say_drain(queue, name, due, due <= now, now)
            if due > now:
                later = min(later, due)
            elif names.DRAINED not in _annotations(queue):
                note = {"metadata": {"annotations": {names.DRAINED: rfc3339(now)}}}
                self._patch(kinds.QUEUE, Key("", name), note)
        return later

    def _say_drain(self, queue: Object, name: str, due: float, over: bool, now: float) -> None:
        reason = "DeadlinePassed" if over else "DeadlineAhead"
        if find(queue, DRAINING).get("reason") == reason:
            return
        message = (
            "what ran in it has been evicted, nothing starts"
            if over
            else f"nothing new starts; what still runs at {rfc3339(due)} is evicted"
        )
        made = condition(DRAINING, True, reason, message, now=rfc3339(now))
        self._set_condition(kinds.QUEUE, Key("", name), queue, made)
        uid = queue["metadata"].get("uid") or ""
        self._events.say(kinds.QUEUE, Key("", name), uid, DRAINING, message)

    # ------------------------------------------------------------------ writes

    def _set_condition(self, resource: Resource, key: Key, obj: Object, made: Object) -> None:
        conditions = merged((obj.get("status") or {}).get("conditions") or (), [made])
        self._patch(resource, key, {"status": {"conditions": conditions}}, subresource="status")

    def _patch(self, resource: Resource, key: Key, patch: Object, subresource: str = "") -> bool:
        try:
            answer = self._runtime.port.patch(
                resource, key.name, patch, key.namespace, subresource=subresource
            )
        except (NotFound, Conflict):
            return False
        except ApiError:
            self._runtime.enqueue(self.name, "look", 1.0)
            return False
        self._runtime.informer(resource).remember(answer)
        return True


def holding(cycle: Cycle) -> Bools:
    """[G] gangs that hold pods after the cycle."""
    tasks = cycle.encoded.snapshot.tasks
    found = np.zeros(cycle.encoded.snapshot.gangs.count, dtype=np.bool_)
    found[tasks.gang[(tasks.gang >= 0) & np.isin(cycle.state, _HELD)]] = True
    return found


def run_ends(cycle: Cycle) -> Floats:
    """[G] when gangs that run reach the maximum run time of their queue; inf where none does."""
    gangs = cycle.encoded.snapshot.gangs
    limits = _limits(cycle.encoded.policies)
    limit = np.where(holding(cycle) & gangs.started, limits[gangs.queue], np.inf)
    if gangs.refusal is not None:
        limit[gangs.refusal == int(Reason.MAX_RUN_TIME_REACHED)] = np.inf
    return np.where(np.isfinite(limit), gangs.last_start_s, np.inf) + limit


def _limits(policies: tuple[QueuePolicy, ...]) -> Floats:
    """[Q + 1] the maximum run time of each queue; the last serves gangs without a queue."""
    return np.array([p.max_run_time_s or np.inf for p in policies] + [np.inf])


def _annotations(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}

"""Writes what became of gangs and queues, only where something changed.

Keys: "groups", "queues" and "pods". Each sends a bounded number of patches side by side and comes
back for the rest, so that statuses are never in the way of decisions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.informer import Informer
from kai_ray.cluster.port import (
    ApiError,
    Conflict,
    Key,
    NotFound,
    Object,
    TooManyRequests,
    Unavailable,
    Write,
)
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.wrappers import cached
from kai_ray.controllers import podgroup_status, queue_status
from kai_ray.controllers.conditions import find
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.cycle import Cycle
from kai_ray.controllers.events import Events
from kai_ray.controllers.facts import GangFacts, QueueFacts, gang_facts, queue_facts
from kai_ray.controllers.merge_patch import difference
from kai_ray.controllers.owners import called
from kai_ray.controllers.pod_status import PodConditions
from kai_ray.controllers.verdict import Failing, Verdicts
from kai_ray.encode import Problem
from kai_ray.scheduler.plan import Wait

log = logging.getLogger(__name__)

#: What a write is about: the object's key, what it was, and the status wanted (None: no status).
About = tuple[Key, Object, Object | None]

#: Failures that pass: anything else would fail again, and is only worth a line in the log.
PASSING = (Conflict, Unavailable, TooManyRequests)
_QUEUES_EVERY_S = 1.0
_PODS_AFTER_S = 1.0
_AGAIN_S = 1.0
_KIND = {r.kind: r for r in (kinds.QUEUE, kinds.POD_GROUP, kinds.POD, kinds.NODE)}


class StatusWriter:
    name = "status"

    def __init__(self, config: ControlConfig, events: Events, failing: Failing) -> None:
        self._config = config
        self._events = events
        self._failing = failing
        self.moved: tuple[GangFacts, list[Key]] | None = None
        """The figures after the last cycle, and the gangs that had others before it."""
        self._cycle: Cycle | None = None
        self._gangs: GangFacts | None = None
        self._queues: QueueFacts | None = None
        self._verdicts: Verdicts | None = None
        self._problems: tuple[Problem, ...] = ()
        self._waits: dict[Key, Wait] = {}
        self._dirty: dict[Key, None] = {}
        self._flying: set[Key] = set()  # their patches are under way
        self._refused: set[Key] = set()  # of the last patches
        self._later: dict[Key, float] = {}
        self._written_s: dict[Key, float] = {}
        self._pods = PodConditions(config, self.name)

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._group_informer = runtime.informer(kinds.POD_GROUP)
        self._queue_informer = runtime.informer(kinds.QUEUE)
        self._workloads = cached(runtime)
        self._pods.setup(runtime)

    def observe(self, cycle: Cycle) -> None:
        """Takes in one cycle and marks what its outcome changes."""
        before = self._gangs
        gangs = gang_facts(cycle)
        self._cycle, self._gangs, self._queues = cycle, gangs, queue_facts(cycle, gangs)
        self._verdicts = Verdicts(
            cycle.encoded, cycle.plan.waits, self._queue_of, self._failing, self._called
        )
        moved = _moved(before, gangs)
        self.moved = (gangs, moved)
        for key in moved:
            self._dirty[key] = None
        self._mark_waits()
        if cycle.encoded.problems != self._problems:
            self._say_problems(cycle.encoded.problems)
            self._dirty.update(dict.fromkeys(gangs.keys))
        if self._dirty:
            self._runtime.enqueue(self.name, "groups")
        self._runtime.enqueue(self.name, "queues", _QUEUES_EVERY_S)
        if cycle.encoded.orphans or cycle.plan.nominate_task.size:
            self._runtime.enqueue(self.name, "pods", _PODS_AFTER_S)

    def _called(self, key: Key) -> str:
        group = self._group_informer.get(key.name, key.namespace)
        return called(group, self._workloads) if group is not None else key.name

    def _mark_waits(self) -> None:
        assert self._verdicts is not None
        waits, before = self._verdicts.waits, self._waits
        now = self._runtime.clock.now()
        for key, wait in waits.items():
            known = before.get(key)
            if known is None or known.reason is not wait.reason:
                self._dirty[key] = None
            elif known != wait and key not in self._later:
                due = max(now, self._written_s.get(key, 0.0) + self._config.repeat_s)
                self._later[key] = due
                self._runtime.enqueue(self.name, "groups", due - now)
        for key in before.keys() - waits.keys():
            self._dirty[key] = None
        self._waits = waits

    def touch(self, group: Key) -> None:
        """Something outside the Plan changed for a gang (a failed bind)."""
        self._dirty[group] = None
        self._runtime.enqueue(self.name, "groups")

    def _queue_of(self, group: Key) -> str:
        found = self._group_informer.get(group.name, group.namespace)
        return ((found or {}).get("spec") or {}).get("queue") or ""

    def _say_problems(self, problems: tuple[Problem, ...]) -> None:
        for problem in sorted(set(problems) - set(self._problems)):
            resource = _KIND.get(problem.kind)
            if resource is not None:
                key = Key(problem.namespace, problem.name)
                found = self._runtime.informer(resource).get(key.name, key.namespace)
                uid = (found or {"metadata": {}})["metadata"].get("uid") or ""
                self._events.warn(resource, key, uid, "Misconfigured", problem.message)
        self._problems = problems
        self._runtime.enqueue(self.name, "pods", _PODS_AFTER_S)

    def reconcile(self, key: str) -> float | None:
        if self._cycle is None:
            return None
        if key == "queues":
            return self._flush_queues()
        if key == "pods":
            assert self._verdicts is not None
            return self._pods.flush(self._cycle, self._verdicts)
        return self._flush_groups()

    def _flush_groups(self) -> float | None:
        now = self._runtime.clock.now()
        for key in [k for k, due in self._later.items() if due <= now]:
            del self._later[key]
            self._dirty[key] = None
        room = max(0, self._config.status_batch - len(self._flying))
        chosen = [key for key in self._dirty if key not in self._flying][:room]
        for key in chosen:
            del self._dirty[key]
            self._later.pop(key, None)
        self._write_groups(chosen, now)
        if self._flying:
            return None  # the answers ask for what is left
        again_s = self._groups_again_s(self._refused)
        self._refused = set()
        return again_s

    def _groups_again_s(self, refused: set[Key]) -> float | None:
        if self._dirty.keys() - refused:
            return 0.0
        if self._dirty:
            return _AGAIN_S
        now = self._runtime.clock.now()
        return max(0.0, min(self._later.values()) - now) if self._later else None

    def _write_groups(self, keys: list[Key], now: float) -> None:
        assert self._gangs and self._queues and self._verdicts
        port = self._runtime.port
        writes: list[Write] = []
        about: list[About] = []
        for key in keys:
            group = self._group_informer.get(key.name, key.namespace)
            if group is None or key not in self._gangs.row_of:
                self._written_s.pop(key, None)
                continue
            verdict = self._verdicts.of(key)
            wanted = podgroup_status.desired(
                group, key, self._gangs, self._queues, verdict, rfc3339(now)
            )
            patch = difference(group.get("status") or {}, wanted)
            if not patch:
                continue
            if _starts(group, wanted):
                stamp = {"metadata": {"annotations": {names.LAST_START: rfc3339(now)}}}
                writes.append(Write(port.patch, (kinds.POD_GROUP, key.name, stamp, key.namespace)))
                about.append((key, group, None))
            writes.append(_patch(port.patch, kinds.POD_GROUP, key, {"status": patch}))
            about.append((key, group, wanted))
            if verdict is not None:
                self._pods.due(key)
                self._runtime.enqueue(self.name, "pods", _PODS_AFTER_S)
        if writes:
            self._flying.update(key for key, _, _ in about)
            self._runtime.post(writes, partial(self._groups_written, about, now))

    def _groups_written(self, about: list[About], now: float, outcomes: list[Any]) -> None:
        refused = set(self._taken_in(self._group_informer, about, outcomes, now))
        self._flying.difference_update(key for key, _, _ in about)
        self._dirty.update(dict.fromkeys(refused))
        self._refused |= refused
        again_s = self._groups_again_s(refused)
        if again_s is not None:
            self._runtime.enqueue(self.name, "groups", again_s)

    def _taken_in(
        self, informer: Informer, about: list[About], outcomes: list[Any], now: float
    ) -> list[Key]:
        """Returns the keys to be tried again."""
        failed: list[Key] = []
        for (key, before, wanted), outcome in zip(about, outcomes, strict=True):
            if isinstance(outcome, PASSING):
                failed.append(key)
                continue
            if isinstance(outcome, ApiError):
                if not isinstance(outcome, NotFound):
                    log.warning("status of %s %s: %s", informer.resource.kind, key.name, outcome)
                continue
            informer.remember(outcome)
            self._written_s[key] = now
            if wanted is not None and informer is self._group_informer:
                self._tell(before, wanted)
        return failed

    def _tell(self, group: Object, wanted: Object) -> None:
        """One event for each turn in the life of a gang, on it and on the user's object."""
        old, new = find(group, "Scheduled"), find({"status": wanted}, "Scheduled")
        if find({"status": wanted}, "Finished") and not find(group, "Finished"):
            self._events.tell(group, "Finished", find({"status": wanted}, "Finished")["message"])
        elif (old.get("status"), old.get("reason")) == (new["status"], new["reason"]):
            return
        elif new["status"] == "True":
            self._events.tell(group, "Scheduled", new["message"])
        elif new["reason"] not in ("GangIncomplete", "PodGated"):
            message = f"{new['reason']}: {new['message']}"
            self._events.tell(group, "Unschedulable", message, warning=True)

    def _flush_queues(self) -> float | None:
        assert self._cycle and self._queues
        port, now = self._runtime.port, self._runtime.clock.now()
        quota = self._cycle.encoded.snapshot.queues.quota
        row_of = {name: i for i, name in enumerate(self._queues.names)}
        problems = {p.name: p for p in self._problems if p.kind == "Queue"}
        writes: list[Write] = []
        about: list[About] = []
        for queue in self._queue_informer:
            name = queue["metadata"]["name"]
            if name in problems:
                wanted = queue_status.broken(queue, problems[name], rfc3339(now))
            elif name in row_of:
                row = row_of[name]
                wanted = queue_status.desired(
                    queue, row, self._queues, quota[:, row].tolist(), rfc3339(now)
                )
            else:
                continue
            patch = difference(queue.get("status") or {}, wanted)
            if patch:
                key = Key("", name)
                writes.append(_patch(port.patch, kinds.QUEUE, key, {"status": patch}))
                about.append((key, queue, wanted))
        outcomes = port.batch(writes) if writes else []
        failed = self._taken_in(self._queue_informer, about, outcomes, now)
        return _AGAIN_S if failed else None


def _moved(before: GangFacts | None, now: GangFacts) -> list[Key]:
    """Gangs with other figures than after the last cycle."""
    if before is None or before.resources != now.resources:
        return list(now.keys)
    if before.keys is now.keys:
        rows = np.flatnonzero((before.figures != now.figures).any(axis=0))
        return [now.keys[row] for row in rows.tolist()]
    old = [before.row_of.get(key, -1) for key in now.keys]
    source = np.array(old, dtype=np.int64)
    padded = np.concatenate([before.figures, np.full((before.figures.shape[0], 1), -1)], axis=1)
    rows = np.flatnonzero((padded[:, source] != now.figures).any(axis=0))
    return [now.keys[row] for row in rows.tolist()]


def _starts(group: Object, wanted: Object) -> bool:
    """Whether a gang starts; one that only gets back a member it had lost goes on running."""
    return (
        not (group.get("status") or {}).get("running")
        and find({"status": wanted}, "Scheduled")["status"] == "True"
        and find(group, "Scheduled").get("status") != "True"
        and not find({"status": wanted}, "Finished")
    )


def _patch(patch: Callable[..., Any], resource: Any, key: Key, body: Object) -> Write:
    return Write(
        patch,
        (resource, key.name, body, key.namespace),
        {"patch_type": "merge", "subresource": "status"},
    )

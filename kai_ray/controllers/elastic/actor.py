"""Raises the size of elastic workloads when room is left, and lowers it before anybody is evicted.

What: a workload whose bounds allow more than its user asked for is lent what nobody else can use.
How: after cycles in which nobody was in line for a place, the core is asked where more pods of each
would go (`room.offered`): limits, quotas, order and topology count as for any pod. What fits is
written to the workload, and its operator makes the pods. When anybody waits who could start on lent
room, that much is taken back at once, before evictions are thought of.
Limits: what the user asked for is never lowered here: it stays a demand with all its rights. A
workload is raised once in `elastic_period_s`, for each change makes it gather its workers anew.
Cost: nothing while no workload is elastic; else one more decision each `elastic_settle_s`.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Conflict, Key, NotFound, Object, Resource, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.binder import Binder
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.departures import Departures
from kai_ray.controllers.elastic.record import asked_for, noted, record_of
from kai_ray.controllers.elastic.room import Offer, granted, offered, veiled, wanted_back
from kai_ray.controllers.elastic.scales import (
    ELASTIC_KINDS,
    Scale,
    index_of,
    part_of,
    resized,
    scales_of,
    without_pods,
)
from kai_ray.controllers.events import Events
from kai_ray.controllers.victims import PodRef, uid_of
from kai_ray.encode import Encoded, Encoder
from kai_ray.podgrouper.build import group_name
from kai_ray.scheduler import Plan, Policy, Snapshot
from kai_ray.scheduler.actions.allocate import allocate
from kai_ray.scheduler.snapshot import ALLOCATED, TaskState

#: The most pods that are offered to one workload at a time.
_MOST_AT_ONCE = 64
_HOLDS = [int(s) for s in ALLOCATED]
_TRIES = 3

Decide = Callable[[Encoded, Snapshot, Policy], Plan]


class _Elastic(NamedTuple):
    """A workload as it was last seen, with its parts and what its user asked for."""

    resource: Resource
    workload: Object
    parts: tuple[tuple[Scale, int], ...]

    @property
    def lends(self) -> bool:
        return any(scale.now > asked for scale, asked in self.parts)


class Elasticity:
    """Key "room": look again whether there is some, now that enough time has passed."""

    name = "elasticity"

    def __init__(
        self,
        config: ControlConfig,
        encoder: Encoder,
        departures: Departures,
        binder: Binder,
        events: Events,
    ) -> None:
        self._config = config
        self._encoder = encoder
        self._departures = departures
        self._binder = binder
        self._events = events
        self._known: dict[Key, _Elastic] = {}
        self._raised_s: dict[str, float] = {}
        self._looked_s = float("-inf")
        self._lent: list[int] = []

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        for resource in ELASTIC_KINDS:
            runtime.informer(resource).on_change(partial(self._changed, resource))

    def reconcile(self, key: str) -> float | None:
        self._runtime.enqueue("scheduler", "again")
        return None

    def _changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        if old is not None:
            self._known.pop(_group_of(old), None)
        if new is None:
            if old is not None:
                self._raised_s.pop(uid_of(old), None)
            return
        record = record_of(new)
        parts = tuple(
            (scale, asked_for(record, scale.part, scale.now)) for scale in scales_of(resource, new)
        )
        if any(scale.now != asked or scale.now < scale.most for scale, asked in parts):
            self._known[_group_of(new)] = _Elastic(resource, new, parts)
            settle_s, now = self._config.elastic_settle_s, self._runtime.clock.now()
            self._raised_s.setdefault(uid_of(new), now + settle_s - self._config.elastic_period_s)
            self._look_again(settle_s)

    def _look_again(self, after_s: float) -> None:
        self._runtime.enqueue(self.name, "room", after_s)

    # ------------------------------------------------------------------ before a decision

    def veil(self, encoded: Encoded) -> Encoded:
        """What is to be decided on: lent room counts as about to be free."""
        self._lent = self._lent_rows(encoded)
        if not self._lent:
            return encoded
        return dataclasses.replace(encoded, snapshot=veiled(encoded.snapshot, self._lent))

    def _lent_rows(self, encoded: Encoded) -> list[int]:
        """Task rows of pods above what was asked for, those that go first in front."""
        if not any(one.lends for one in self._known.values()):
            return []
        return [
            row
            for gang, one in self._gangs(encoded)
            if one.lends
            for scale, asked in one.parts
            for row in self._above(encoded, gang, one, scale, asked)
        ]

    def _gangs(self, encoded: Encoded) -> list[tuple[int, _Elastic]]:
        """The gang rows of what is elastic."""
        gangs = encoded.names.gangs
        found: list[tuple[int, _Elastic]] = []
        for key, one in self._known.items():
            row = bisect_left(gangs, _by_name(key), key=_by_name)
            if row < len(gangs) and gangs[row] == key:
                found.append((row, one))
        return sorted(found, key=lambda pair: pair[0])

    def _above(
        self, encoded: Encoded, gang: int, one: _Elastic, scale: Scale, asked: int
    ) -> list[int]:
        rows = self._pods_of(encoded, gang, one, scale)
        numbers = {row: index_of(one.resource, pod) for row, pod in rows}
        if numbers and all(number is not None for number in numbers.values()):
            over = [row for row, number in numbers.items() if (number or 0) >= asked]
            return sorted(over, key=lambda row: -(numbers[row] or 0))
        tasks = encoded.snapshot.tasks
        lent = max(0, len(rows) - asked)
        placed = {row: tasks.state[row] in _HOLDS for row in numbers}
        last = sorted(
            numbers, key=lambda r: (placed[r], -float(tasks.created_s[r]), -int(tasks.rank[r]))
        )
        return last[:lent]

    def _pods_of(
        self, encoded: Encoded, gang: int, one: _Elastic, scale: Scale
    ) -> list[tuple[int, Object]]:
        """Pods of a part that run or want to."""
        tasks, names = encoded.snapshot.tasks, encoded.names
        alive = np.isin(tasks.state, [*_HOLDS, int(TaskState.PENDING), int(TaskState.GATED)])
        rows = np.flatnonzero((tasks.gang == gang) & alive).tolist()
        pods = [(row, names.pod_object(row)) for row in rows]
        return [(r, p) for r, p in pods if p and part_of(one.resource, p) == scale.part]

    # ------------------------------------------------------------------ after it

    def settle(self, encoded: Encoded, plan: Plan, policy: Policy, decide: Decide) -> None:
        """Takes back what others are in line for; lends what is left. `encoded` before `veil`."""
        if not self._known:
            return
        now = self._runtime.clock.now()
        if self._lent:
            self._take_back(encoded, wanted_back(encoded.snapshot, plan, self._lent))
        if plan.nominate_task.size or plan.evict_task.size:
            self._looked_s = now
            self._look_again(self._config.elastic_settle_s)
            return
        if plan.bind_task.size:
            encoded = self._encoder.snapshot(now)  # with these binds
            self._lent = self._lent_rows(encoded)
        only_start = dataclasses.replace(policy, actions=(allocate,))
        if self._start_lent(encoded, only_start, decide):
            return
        rest_s = self._looked_s + self._config.elastic_settle_s - now
        if rest_s > 0:
            self._look_again(rest_s)
        else:
            self._looked_s = now
            self._lend(encoded, only_start, decide, now)

    def _start_lent(self, encoded: Encoded, policy: Policy, decide: Decide) -> bool:
        """Places lent pods that have none; those that find none are given up again."""
        tasks = encoded.snapshot.tasks
        waiting = [row for row in self._lent if tasks.state[row] == TaskState.PENDING]
        if not waiting:
            return False
        standing = [row for row in self._lent if row not in waiting]
        seen = dataclasses.replace(encoded, snapshot=veiled(encoded.snapshot, standing))
        plan = decide(seen, seen.snapshot, policy)
        rows = np.isin(plan.bind_task, waiting)
        if rows.any():
            self._binder.bind(encoded, plan)
        bound = set(plan.bind_task.tolist())
        self._take_back(encoded, [row for row in waiting if row not in bound])
        return True

    def _lend(self, encoded: Encoded, policy: Policy, decide: Decide, now: float) -> None:
        candidates: list[tuple[_Elastic, Scale, int]] = []
        offers: list[Offer] = []
        wait_s = float("inf")
        for gang, one in self._gangs(encoded):
            for scale, asked in one.parts:
                like = self._grows(encoded, gang, one, scale)
                if like is None:
                    continue
                since = self._raised_s.get(uid_of(one.workload), float("-inf"))
                left_s = since + self._config.elastic_period_s - now
                if left_s > 0:
                    wait_s = min(wait_s, left_s)
                    continue
                candidates.append((one, scale, asked))
                offers.append(Offer(like, min(scale.most - scale.now, _MOST_AT_ONCE)))
        if wait_s < float("inf"):
            self._look_again(wait_s)
        if not offers:
            return
        plan = decide(encoded, offered(encoded.snapshot, offers), policy)
        counts = granted(plan, offers, encoded.snapshot.tasks.count)
        for (one, scale, asked), pods in zip(candidates, counts, strict=True):
            if pods and self._write(one, scale, asked, scale.now + pods):
                self._raised_s[uid_of(one.workload)] = now
                text = f"{_called(scale)} from {scale.now} to {scale.now + pods}: room was left"
                self._tell(one, "Grown", text)

    def _grows(self, encoded: Encoded, gang: int, one: _Elastic, scale: Scale) -> int | None:
        """A pod that more would equal, where all that were asked for run and more are allowed."""
        if scale.now >= scale.most or scale.now < 1:
            return None
        rows = self._pods_of(encoded, gang, one, scale)
        running = int(TaskState.RUNNING)
        state = encoded.snapshot.tasks.state
        if len(rows) != scale.now or any(state[row] != running for row, _ in rows):
            return None
        return rows[-1][0]

    # ------------------------------------------------------------------ smaller again

    def _take_back(self, encoded: Encoded, rows: list[int]) -> None:
        """Lowers the sizes of the workloads that these pods belong to."""
        by_gang: dict[int, set[int]] = {}
        for row in rows:
            by_gang.setdefault(int(encoded.snapshot.tasks.gang[row]), set()).add(row)
        for gang, some in by_gang.items():
            one = self._known.get(encoded.names.gang(gang))
            if one is None:
                continue
            for scale, asked in one.parts:
                pods = self._pods_of(encoded, gang, one, scale)
                mine = [(row, pod) for row, pod in pods if row in some]
                if mine:
                    self._lower(one, scale, asked, mine, len(pods) - len(mine))

    def _lower(
        self, one: _Elastic, scale: Scale, asked: int, pods: list[tuple[int, Object]], others: int
    ) -> None:
        """`others`: pods of the part that stay. Some of `pods` may be on their way out already."""
        numbers = [n for _, pod in pods if (n := index_of(one.resource, pod)) is not None]
        size = max(min(numbers) if numbers else others, asked)
        if size >= scale.now:
            return
        text = f"{_called(scale)} from {scale.now} to {size}: others are in line for their room"
        refs = [PodRef(key_of(pod), uid_of(pod)) for _, pod in pods]
        if one.resource == kinds.JOB:
            # The Job controller chooses by itself whom to end; so those are ended first.
            self._departures.one_by_one(refs, text)
        leaving = [ref.key.name for ref in refs] if one.resource == kinds.RAY_CLUSTER else []
        if self._write(one, scale, asked, size, leaving):
            self._tell(one, "Shrunk", text)

    def _write(
        self, one: _Elastic, scale: Scale, asked: int, size: int, leaving: list[str] | None = None
    ) -> bool:
        """Size and record in one request; nothing if its user has changed the size in between."""
        resource, workload = one.resource, one.workload
        for _ in range(_TRIES):
            wanted = resized(resource, workload, scale.part, size)
            if leaving:
                wanted = without_pods(wanted, scale.part, leaving)
            noted(wanted, scale.part, asked, size)
            try:
                done = self._runtime.port.update(resource, wanted)
                self._runtime.informer(resource).remember(done)
                return True
            except NotFound:
                return False
            except Conflict:  # mostly its status, which its operator writes as pods come and go
                key = key_of(workload)
                try:
                    workload = self._runtime.port.get(resource, key.name, key.namespace)
                except NotFound:
                    return False
            same = [s.now for s in scales_of(resource, workload) if s.part == scale.part]
            if uid_of(workload) != uid_of(one.workload) or same != [scale.now]:
                return False
        return False

    def _tell(self, one: _Elastic, reason: str, text: str) -> None:
        self._events.say(one.resource, key_of(one.workload), uid_of(one.workload), reason, text)


def _by_name(group: Key) -> tuple[str, str]:
    return group.name, group.namespace


def _called(scale: Scale) -> str:
    return f"{scale.part} pods" if scale.part else "pods"


def _group_of(workload: Object) -> Key:
    return Key(workload["metadata"].get("namespace") or "", group_name(workload))

"""Carries out what a Plan says about giving way: holds first, then the victims, gang by gang.

Nothing is remembered between cycles but the pace: an eviction that was cut short is seen by the
next cycle as it stands, and decided again. So every write is safe to repeat, and in this order:

1. the beneficiary's PodGroup carries which nodes are kept for which pods, and until when;
2. the victim's PodGroup carries when and why it was evicted;
3. pods carry the condition DisruptionTarget;
4. the victim goes: a whole gang by its kind's own switch where it has one, else pod by pod.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import ApiError, Conflict, Key, NotFound, Object, Write, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.conditions import condition, merged
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.events import Events
from kai_ray.controllers.eviction_words import EVICTED, tell_evicted
from kai_ray.controllers.freed_room import moves_of, nominations, slowest_s
from kai_ray.controllers.owners import called
from kai_ray.controllers.suspensions import Suspensions
from kai_ray.controllers.words import name_table
from kai_ray.encode import Encoded, Encoder
from kai_ray.encode.eviction_facts import write_hold
from kai_ray.scheduler import Plan
from kai_ray.scheduler.evictions import Eviction, evictions
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import ALLOCATED

#: How long a gang that was sent away as stale stays away: the first time, and at most.
STALE_FIRST_S, STALE_LAST_S = 10.0, 300.0
_MINUTE_S = 60.0
_MOST_VICTIMS_NAMED = 20


@dataclass(slots=True)
class Victim:
    """Pods of one gang that leave for one reason."""

    group: Key
    gang: int
    reason: Reason
    beneficiary: Key | None
    message: str
    tasks: list[int] = field(default_factory=list[int])
    whole: bool = False  # nothing of the gang stays


class Evictor:
    def __init__(
        self, config: ControlConfig, encoder: Encoder, suspensions: Suspensions, events: Events
    ) -> None:
        self._config = config
        self._encoder = encoder
        self._suspensions = suspensions
        self._events = events
        self._spent: deque[tuple[float, int]] = deque()

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._groups = runtime.informer(kinds.POD_GROUP)
        self._pods = runtime.informer(kinds.POD)

    # ------------------------------------------------------------------ the pace

    def allowance(self) -> int | None:
        """Pods that may be evicted now; None = no limit."""
        limit = self._config.evictions_per_minute
        if limit is None:
            return None
        now = self._runtime.clock.now()
        while self._spent and self._spent[0][0] <= now - _MINUTE_S:
            self._spent.popleft()
        return max(0, limit - sum(count for _, count in self._spent))

    def allowed_again_s(self) -> float:
        """When the pace allows more; inf where it does not hold anything up."""
        if self.allowance() != 0 or not self._spent:
            return math.inf
        return self._spent[0][0] + _MINUTE_S

    # ------------------------------------------------------------------ one plan

    def evict(self, encoded: Encoded, plan: Plan) -> list[int]:
        """Returns the task rows that are on their way out now."""
        victims = self._victims(encoded, plan)
        if not victims:
            return []
        held = self._hold(encoded, plan, victims)
        good = [v for v in victims if v.beneficiary is None or v.beneficiary in held]
        gone: list[int] = []
        switched: set[Key] = set()
        for victim in self._note(encoded, plan, good):
            gone += self._send_away(encoded, victim, switched)
        if gone:
            self._spent.append((self._runtime.clock.now(), len(gone)))
        return gone

    def _victims(self, encoded: Encoded, plan: Plan) -> list[Victim]:
        found: dict[tuple[int, int, int], Victim] = {}
        for one in evictions(plan):
            gang = int(encoded.snapshot.tasks.gang[one.task])
            slot = (gang, one.reason, one.beneficiary)
            if slot not in found:
                found[slot] = self._victim(encoded, gang, one)
            found[slot].tasks.append(one.task)
        self._mark_whole(encoded, list(found.values()))
        return [v for v in found.values() if not self._spared(encoded, v)]

    def _victim(self, encoded: Encoded, gang: int, one: Eviction) -> Victim:
        queue = encoded.snapshot.gangs.queue[gang]
        name = encoded.names.queue(int(queue)) if queue >= 0 else ""
        return Victim(
            encoded.names.gang(gang),
            gang,
            one.reason,
            encoded.names.gang(one.beneficiary) if one.beneficiary >= 0 else None,
            one.words(name, name_table(encoded, self._called)),
        )

    def _called(self, key: Key) -> str:
        group = self._groups.get(key.name, key.namespace)
        return called(group) if group is not None else key.name

    def _mark_whole(self, encoded: Encoded, victims: list[Victim]) -> None:
        tasks = encoded.snapshot.tasks
        there = np.isin(tasks.state, [int(s) for s in ALLOCATED]) & (tasks.gang >= 0)
        held = np.bincount(tasks.gang[there], minlength=encoded.snapshot.gangs.count)
        leaves: dict[int, int] = {}
        for v in victims:
            leaves[v.gang] = leaves.get(v.gang, 0) + len(v.tasks)
        for v in victims:
            v.whole = leaves[v.gang] >= held[v.gang]

    def _spared(self, encoded: Encoded, victim: Victim) -> bool:
        """A gang of bare pods is not sent away for being too few: nobody would make it anew."""
        return victim.reason is Reason.STALE_GANG and bool(encoded.bare[victim.gang])

    # ------------------------------------------------------------------ 1. holds

    def _hold(self, encoded: Encoded, plan: Plan, victims: list[Victim]) -> set[Key]:
        """Writes who is to get the room; the gangs for which that is on record."""
        wanted: dict[Key, list[Victim]] = {}
        for v in victims:
            if v.beneficiary is not None:
                wanted.setdefault(v.beneficiary, []).append(v)
        nodes = nominations(encoded, plan)
        writes: list[Write] = []
        keys: list[Key] = []
        for key, of in wanted.items():
            group = self._groups.get(key.name, key.namespace)
            if group is None or not nodes.get(key):
                continue  # nobody waits there any more
            slowest = slowest_s(encoded, [task for v in of for task in v.tasks])
            until = rfc3339(self._runtime.clock.now() + max(self._config.hold_s, slowest))
            named = [self._named(v) for v in of][:_MOST_VICTIMS_NAMED]
            patch = {
                "metadata": {"annotations": {names.HOLD: write_hold(until, nodes[key], named)}}
            }
            writes.append(
                Write(self._runtime.port.patch, (kinds.POD_GROUP, key.name, patch, key.namespace))
            )
            keys.append(key)
        held: set[Key] = set()
        for key, outcome in zip(keys, self._send(writes), strict=True):
            if not isinstance(outcome, ApiError):
                self._groups.remember(outcome)
                held.add(key)
        return held

    def _named(self, victim: Victim) -> str:
        group = self._groups.get(victim.group.name, victim.group.namespace)
        name = called(group) if group is not None else victim.group.name
        return f"{name} ({victim.reason.word})"

    # ------------------------------------------------------------------ 2. the record

    def _note(self, encoded: Encoded, plan: Plan, victims: list[Victim]) -> list[Victim]:
        """Says on each PodGroup when and why; the victims of which that is on record."""
        moves = moves_of(encoded, plan)
        by_group = {v.group: v for v in victims}
        writes: list[Write] = []
        now = self._runtime.clock.now()
        patch = self._runtime.port.patch
        known: list[Key] = []
        for key, v in by_group.items():
            group = self._groups.get(key.name, key.namespace)
            if group is None:
                continue
            known.append(key)
            notes: dict[str, str | None] = {names.LAST_EVICTION: rfc3339(now)}
            if moves.get(key):
                until = rfc3339(now + max(self._config.hold_s, slowest_s(encoded, v.tasks)))
                notes[names.HOLD] = write_hold(until, {}, (), moves[key], rfc3339(now))
            if v.reason is Reason.STALE_GANG:
                times = _times(group) + 1
                notes[names.STALE_SINCE] = None
                notes[names.STALE_EVICTIONS] = str(times)
                notes[names.RESUME_AT] = rfc3339(now + stale_hold_s(times))
            body = {"metadata": {"annotations": notes}}
            writes.append(Write(patch, (kinds.POD_GROUP, key.name, body, key.namespace)))
            made = condition(EVICTED, True, v.reason.word, v.message, now=rfc3339(now))
            conditions = merged((group.get("status") or {}).get("conditions") or (), [made])
            body = {"status": {"conditions": conditions}}
            args = (kinds.POD_GROUP, key.name, body, key.namespace)
            writes.append(Write(patch, args, {"subresource": "status"}))
        outcomes = self._send(writes)
        noted: set[Key] = set()
        for at, key in enumerate(known):
            first, second = outcomes[2 * at : 2 * at + 2]
            if isinstance(first, ApiError):
                continue
            noted.add(key)
            self._groups.remember(first)
            if not isinstance(second, ApiError):  # the condition is only for people
                self._groups.remember(second)
        return [v for v in victims if v.group in noted]

    # ------------------------------------------------------------------ 3. and 4. they go

    def _send_away(self, encoded: Encoded, victim: Victim, switched: set[Key]) -> list[int]:
        """`switched`: gangs whose workload has been told to suspend, with all that is theirs."""
        group = self._groups.get(victim.group.name, victim.group.namespace)
        if group is None:
            return []
        workload = self._suspensions.of(group) if victim.whole else None
        if victim.group in switched:
            gone = victim.tasks
        elif workload is not None and self._suspend(victim, group, workload):
            gone = victim.tasks
            switched.add(victim.group)
        else:
            gone = self._delete(encoded, victim)
        if gone:
            tell_evicted(self._events, self._groups, victim, group)
        return gone

    def _suspend(self, victim: Victim, group: Object, workload: tuple) -> bool:
        now = self._runtime.clock.now()
        until = now
        if victim.reason is Reason.STALE_GANG:
            until = now + stale_hold_s(_times(group))
        write = self._suspensions.suspend(workload, group, until, now)
        (answer,) = self._send([write])
        if isinstance(answer, ApiError):
            if isinstance(answer, NotFound | Conflict):
                return False
            raise answer
        return self._suspensions.suspended(workload[0], answer, victim.group)

    def _delete(self, encoded: Encoded, victim: Victim) -> list[int]:
        """Each pod by its UID: a namesake made since is not meant."""
        alive = [(task, pod) for task in victim.tasks if (pod := self._still_placed(encoded, task))]
        self._send([self._target(pod, victim) for _, pod in alive])
        port, gone = self._runtime.port, []
        deletes = [
            Write(port.delete, (kinds.POD, *reversed(key_of(pod))), {"uid": _uid(pod)})
            for _, pod in alive
        ]
        failed: ApiError | None = None
        for (task, _), outcome in zip(alive, self._send(deletes), strict=True):
            if isinstance(outcome, NotFound | Conflict):
                continue
            if isinstance(outcome, ApiError):
                failed = outcome
                continue
            gone.append(task)
            if isinstance(outcome, dict) and outcome.get("kind", "Pod") == "Pod":
                self._pods.remember(outcome)
        if failed is not None:
            self._runtime.enqueue("scheduler", "again", 1.0)
        return gone

    def _still_placed(self, encoded: Encoded, task: int) -> Object | None:
        """The pod that is meant, if it is still there and not leaving already."""
        seen = encoded.names.pod_object(task)
        key = encoded.names.pod(task)
        pod = self._pods.get(key.name, key.namespace)
        if seen is None or pod is None or _uid(pod) != _uid(seen):
            return None
        return None if pod["metadata"].get("deletionTimestamp") else pod

    def _target(self, pod: Object, victim: Victim) -> Write:
        now = rfc3339(self._runtime.clock.now())
        made = condition("DisruptionTarget", True, "PreemptionByScheduler", victim.message, now=now)
        key = key_of(pod)
        patch = {"metadata": {"uid": _uid(pod)}, "status": {"conditions": [made]}}
        return Write(
            self._runtime.port.patch,
            (kinds.POD, key.name, patch, key.namespace),
            {"patch_type": "strategic", "subresource": "status"},
        )

    def _send(self, writes: list[Write]) -> list:
        return self._runtime.port.batch(writes) if writes else []


def stale_hold_s(times: int) -> float:
    return min(STALE_LAST_S, STALE_FIRST_S * 2 ** min(max(times, 1) - 1, 10))


def _times(group: Object) -> int:
    text = (group["metadata"].get("annotations") or {}).get(names.STALE_EVICTIONS)
    return int(text) if text and text.isdigit() else 0


def _uid(pod: Object) -> str:
    return pod["metadata"].get("uid") or ""

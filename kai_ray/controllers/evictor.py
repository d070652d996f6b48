"""Carries out what a Plan says about giving way: holds first, then the victims, gang by gang.

Nothing is remembered between cycles but the pace, and that stands on record as well: an eviction
that was cut short is seen by the next cycle as it stands, and decided again. So every write is safe
to repeat, and in this order:

1. the beneficiary's PodGroup carries which nodes are kept for which pods, and until when;
2. the victim's PodGroup carries when and why it was evicted, or by when it has to go;
3. who is given time is told so and goes later (notices.py); all others go now (departures.py).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import epoch, rfc3339
from kai_ray.cluster.port import ApiError, Key, Object, Write
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.wrappers import cached
from kai_ray.controllers.conditions import condition, merged
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.departures import Departures
from kai_ray.controllers.drains import Drains
from kai_ray.controllers.events import Events
from kai_ray.controllers.eviction_words import EVICTED, tell_evicted
from kai_ray.controllers.freed_room import move, moves_of, nominations, slowest_s
from kai_ray.controllers.grace import given_notice, grace_s
from kai_ray.controllers.merge_patch import unchanged
from kai_ray.controllers.notice_record import Notice, notices_of, with_notice, write_notices
from kai_ray.controllers.owners import called
from kai_ray.controllers.victims import Victim, victims_of
from kai_ray.controllers.words import name_table
from kai_ray.encode import Encoded
from kai_ray.encode.eviction_facts import Move, write_hold
from kai_ray.encode.queue_policy import SILENT, QueuePolicy
from kai_ray.encode.settings import in_shard
from kai_ray.scheduler import Plan
from kai_ray.scheduler.reason import Reason

#: How long a gang that was sent away as stale stays away: the first time, and at most.
STALE_FIRST_S, STALE_LAST_S = 10.0, 300.0
_MINUTE_S = 60.0
_MOST_VICTIMS_NAMED = 20


class Evictor:
    def __init__(
        self, config: ControlConfig, departures: Departures, drains: Drains, events: Events
    ) -> None:
        self._config = config
        self._departures = departures
        self._drains = drains
        self._events = events
        self._spent: deque[tuple[float, int]] = deque()
        self._remembered = False  # whether what went before we came is in it

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._groups = runtime.informer(kinds.POD_GROUP)
        self._workloads = cached(runtime)

    # ------------------------------------------------------------------ the pace

    def allowance(self) -> int | None:
        """Pods that may be evicted now; None = no limit."""
        limit = self._config.evictions_per_minute
        if limit is None:
            return None
        now = self._runtime.clock.now()
        if not self._remembered:
            self._remembered = True
            self._spent.extend(sorted(self._on_record(now)))
        while self._spent and self._spent[0][0] <= now - _MINUTE_S:
            self._spent.popleft()
        return max(0, limit - sum(count for _, count in self._spent))

    def _on_record(self, now: float) -> Iterator[tuple[float, int]]:
        """What PodGroups say about evictions of the last minute: a restart goes on counting."""
        for group in self._groups:
            found = eviction_of(group) if in_shard(group, self._config.encode) else None
            if found is not None and found[0] > now - _MINUTE_S:
                yield found

    def allowed_again_s(self) -> float:
        """When the pace allows more; inf where it does not hold anything up."""
        if self.allowance() != 0 or not self._spent:
            return math.inf
        return self._spent[0][0] + _MINUTE_S

    # ------------------------------------------------------------------ one plan

    def evict(self, encoded: Encoded, plan: Plan) -> list[int]:
        """Returns the task rows that are on their way out now; those that are told go later."""
        table = name_table(encoded, self._called)
        victims = victims_of(encoded, plan, table, self._departures.as_a_whole)
        if not victims:
            return []
        told = {id(v): notice for v in victims if (notice := self._notice(encoded, v)) is not None}
        held = self._hold(encoded, plan, victims, told)
        good = [v for v in victims if v.beneficiary is None or v.beneficiary in held]
        gone: list[int] = []
        spent = 0
        for victim in self._note(encoded, plan, good, told):
            left = [] if id(victim) in told else self._send_away(victim)
            gone += left
            spent += len(victim.tasks) if id(victim) in told else len(left)
        if spent:
            self._spent.append((self._runtime.clock.now(), spent))
        return gone

    def _called(self, key: Key) -> str:
        group = self._groups.get(key.name, key.namespace)
        return called(group, self._workloads) if group is not None else key.name

    def _notice(self, encoded: Encoded, victim: Victim) -> Notice | None:
        """What a victim is told that gets time; None for one that goes now."""
        group = self._groups.get(victim.group.name, victim.group.namespace)
        if group is None or not given_notice(victim.reason):
            return None
        pods = [p for ref in victim.pods if (p := self._departures.present(ref)) is not None]
        if not any((p.get("status") or {}).get("phase") == "Running" for p in pods):
            return None  # nothing has been done yet that could be saved
        asked = grace_s(group, _policy(encoded, victim), self._config)
        drains = (asked > 0 or not victim.whole) and self._drains.concern(pods)
        wait = asked or (self._config.drain_s if drains else 0.0)
        if wait <= 0:
            return None
        now = self._runtime.clock.now()
        return Notice(
            victim.reason,
            victim.beneficiary,
            victim.message,
            since_s=math.floor(now),
            deadline_s=math.ceil(now + wait),
            whole=victim.whole,
            pods=() if victim.whole else tuple(victim.pods),
            drains=drains,
            asked=asked > 0,
        )

    # ------------------------------------------------------------------ 1. holds

    def _hold(
        self, encoded: Encoded, plan: Plan, victims: list[Victim], told: dict[int, Notice]
    ) -> set[Key]:
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
            until = rfc3339(max(self._free_by(encoded, v, told) for v in of))
            named = [self._named(v) for v in of][:_MOST_VICTIMS_NAMED]
            notes = {names.HOLD: write_hold(until, nodes[key], named)}
            patch = {"metadata": {**unchanged(group), "annotations": notes}}
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

    def _free_by(self, encoded: Encoded, victim: Victim, told: dict[int, Notice]) -> float:
        """Until when the room of a victim is kept: its time to save, its time to end, and more."""
        notice = told.get(id(victim))
        leaves_s = self._runtime.clock.now() if notice is None else notice.deadline_s
        return leaves_s + max(self._config.hold_s, slowest_s(encoded, victim.tasks))

    def _named(self, victim: Victim) -> str:
        return f"{self._called(victim.group)} ({victim.reason.word})"

    # ------------------------------------------------------------------ 2. the record

    def _note(
        self, encoded: Encoded, plan: Plan, victims: list[Victim], told: dict[int, Notice]
    ) -> list[Victim]:
        """Says on each PodGroup when and why; the victims of which that is on record."""
        moves = moves_of(encoded, plan)
        by_group: dict[Key, list[Victim]] = {}
        for v in victims:
            by_group.setdefault(v.group, []).append(v)
        writes: list[Write] = []
        now = self._runtime.clock.now()
        patch = self._runtime.port.patch
        known: list[Key] = []
        for key, of in by_group.items():
            group = self._groups.get(key.name, key.namespace)
            if group is None:
                continue
            known.append(key)
            notes = self._notes(group, of, told)
            if moves.get(key):
                until = rfc3339(max(self._free_by(encoded, v, told) for v in of))
                kept = [*moves[key], *(m for v in of for m in _own_places(encoded, v))]
                notes[names.HOLD] = write_hold(until, {}, (), kept, rfc3339(now))
            body = {"metadata": {"annotations": notes}}
            writes.append(Write(patch, (kinds.POD_GROUP, key.name, body, key.namespace)))
            made = [
                condition(EVICTED, True, v.reason.word, v.message, now=rfc3339(now))
                for v in of[-1:]
                if id(v) not in told
            ]
            conditions = merged((group.get("status") or {}).get("conditions") or (), made)
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

    def _notes(
        self, group: Object, victims: list[Victim], told: dict[int, Notice]
    ) -> dict[str, str | None]:
        now = self._runtime.clock.now()
        notes: dict[str, str | None] = {}
        given = [told[id(v)] for v in victims if id(v) in told]
        if len(given) < len(victims):
            before = eviction_of(group)
            recent = before is not None and before[0] > now - _MINUTE_S
            pods = sum(len(v.tasks) for v in victims if id(v) not in told)
            notes[names.LAST_EVICTION] = rfc3339(now)
            notes[names.EVICTED_PODS] = str(pods + (before[1] if before and recent else 0))
        if given:
            record = notices_of(group)
            for notice in given:
                record = with_notice(record, notice)
            notes[names.EVICTION_NOTICES] = write_notices(record)
        if any(v.reason is Reason.STALE_GANG for v in victims):
            times = _times(group) + 1
            notes[names.STALE_SINCE] = None
            notes[names.STALE_EVICTIONS] = str(times)
            notes[names.RESUME_AT] = rfc3339(now + stale_hold_s(times))
        return notes

    # ------------------------------------------------------------------ 3. they go

    def _send_away(self, victim: Victim) -> list[int]:
        group = self._groups.get(victim.group.name, victim.group.namespace)
        if group is None:
            return []
        if victim.whole:
            until = self._runtime.clock.now()
            if victim.reason is Reason.STALE_GANG:
                until += stale_hold_s(_times(group))
            gone = self._departures.whole(group, victim.pods, victim.message, until)
        else:
            gone = self._departures.surplus(victim.pods, victim.message)
        if gone:
            found = (self._groups, self._workloads)
            tell_evicted(self._events, *found, victim, len(gone), group)
        left = set(gone)
        return [task for task, ref in zip(victim.tasks, victim.pods, strict=True) if ref in left]

    def _send(self, writes: list[Write]) -> list:
        return self._runtime.port.batch(writes) if writes else []


def eviction_of(group: Object) -> tuple[float, int] | None:
    """When pods of a gang were last evicted, and how many; None where it does not say."""
    notes = group["metadata"].get("annotations") or {}
    at, pods = notes.get(names.LAST_EVICTION), notes.get(names.EVICTED_PODS) or ""
    try:
        return (epoch(at), int(pods)) if at and pods else None
    except (ValueError, TypeError):
        return None


def _policy(encoded: Encoded, victim: Victim) -> QueuePolicy:
    queue = int(encoded.snapshot.gangs.queue[victim.gang])
    return encoded.policies[queue] if 0 <= queue < len(encoded.policies) else SILENT


def _own_places(encoded: Encoded, victim: Victim) -> list[Move]:
    """Where pods were, and may be again, that go only because their gang is moved as a whole."""
    if victim.reason is not Reason.CONSOLIDATED:
        return []
    node = encoded.snapshot.tasks.node
    return [move(encoded, task, int(node[task])) for task in victim.beside]


def stale_hold_s(times: int) -> float:
    return min(STALE_LAST_S, STALE_FIRST_S * 2 ** min(max(times, 1) - 1, 10))


def _times(group: Object) -> int:
    text = (group["metadata"].get("annotations") or {}).get(names.STALE_EVICTIONS)
    return int(text) if text and text.isdigit() else 0

"""Finds gangs that hold GPUs and do not use them, warns them, and lets their queue's rule follow.

A gang is idle while every look finds less in use than its rule says; a look that finds more, or
finds no figures, begins the time anew. Then it is warned: a condition, an event, a notification.
What follows after the time of grace is done once, and never while a build job is in its protected
hours or a checkpoint is being written. A rule that does not say `enforce` only tells what it would
do. The warning is on record on the PodGroup (record.py): a restart goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import epoch, rfc3339
from kai_ray.cluster.port import ApiError, Conflict, Key, NotFound, Object, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.conditions import condition, find, merged
from kai_ray.controllers.cycle import Cycle
from kai_ray.controllers.events import Events
from kai_ray.controllers.idle import words
from kai_ray.controllers.idle.looking import Finding, Looking
from kai_ray.controllers.idle.record import IdleRecord, read, recorded, written
from kai_ray.controllers.idle.saving import saving
from kai_ray.controllers.idle.switch import Refused, Switch
from kai_ray.controllers.suspensions import Suspensions
from kai_ray.encode.idle_rules import IdleRule
from kai_ray.encode.settings import EncodeConfig, in_shard

log = logging.getLogger(__name__)

#: Is told of every warning and of what follows: gang, reason, sentence. Must not block.
Told = Callable[[Key, str, str], None]
#: How often gangs are looked at, and how long an evicted one leaves others the first turn.
LOOK_S = 30.0
AWAY_S = 30.0
_MARKED = "idle-marked"


class IdleJobs:
    """Controller with the one key "look"."""

    name = "idle-jobs"

    def __init__(self, config: EncodeConfig, suspensions: Suspensions, events: Events) -> None:
        self.told: list[Told] = []
        self._config = config
        self._events = events
        self._switch = Switch(suspensions)
        self._looking = Looking()
        self._since: dict[Key, float] = {}
        self._ends: dict[Key, float] = {}
        self._cycle: Cycle | None = None
        self._next_s = 0.0

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._switch.setup(runtime)
        self._groups = runtime.informer(kinds.POD_GROUP)
        self._groups.add_index(_MARKED, _marked)
        self._looking.setup(runtime)

    def observe(self, cycle: Cycle) -> None:
        self._cycle = cycle
        ruled = any(policy.idle for policy in cycle.encoded.policies)
        if ruled or self._since or self._groups.by_index(_MARKED, "yes"):
            wait = self._next_s - self._runtime.clock.now()
            self._runtime.enqueue(self.name, "look", min(max(0.0, wait), LOOK_S))

    def ends(self) -> dict[Key, float]:
        """When gangs that were warned have to leave."""
        return self._ends

    # ------------------------------------------------------------------ looking

    def reconcile(self, key: str) -> float | None:
        cycle = self._cycle
        if cycle is None:
            return None
        now = self._runtime.clock.now()
        self._next_s = now + LOOK_S
        ruled = any(policy.idle for policy in cycle.encoded.policies)
        findings = self._looking.find(cycle, now) if ruled else []
        since: dict[Key, float] = {}
        ends: dict[Key, float] = {}
        moments = [now + LOOK_S]
        for found in findings:
            record = read(found.group)
            began = record.since_s if record is not None else self._since.get(found.key, now)
            since[found.key] = began = min(began, now)
            moments.append(began + found.rule.for_s)
            record = self._judge(found, record, began, now)
            if record is not None and record.ends and not record.done:
                ends[found.key] = record.due_s
                moments.append(record.due_s)
        if ends != self._ends:
            self._runtime.enqueue("announcements", "look")
        self._since, self._ends = since, ends
        self._take_back(since, ruled, now)
        if not ruled and not self._groups.by_index(_MARKED, "yes"):
            return None
        return max(min((m for m in moments if m > now), default=now + LOOK_S) - now, 1.0)

    # ------------------------------------------------------------------ what follows

    def _judge(
        self, found: Finding, record: IdleRecord | None, since: float, now: float
    ) -> IdleRecord | None:
        """Warns, waits or acts; what is on record then."""
        if record is not None and not _same_rule(record, found.rule, found.protected_due):
            record = None  # another rule holds by now: it is warned anew
        if record is None:
            if now - since < found.rule.for_s or found.protected_until_s is not None:
                return None
            return self._warn(found, since, now)
        if record.done or record.action == "warn" or now < record.due_s:
            return record
        if not record.enforce:
            return self._settle(found, record, words.DRY_RUN, words.dry_run(found.use, record))
        why = self._why_not(found, now)
        if why:
            self._say(found, words.POSTPONED, words.postponed(found.use, record, why))
            return record
        return self._act(found, record)

    def _warn(self, found: Finding, since: float, now: float) -> IdleRecord | None:
        record = recorded(since, now, found.rule)
        record = record._replace(due_s=found.protected_due(record.due_s))
        if not self._note(found.group, {names.IDLE: written(record)}):
            return None
        self._say(found, words.WARNING, words.warning(found.use, record))
        return record

    def _why_not(self, found: Finding, now: float) -> str:
        """What stands against acting now; "" for nothing."""
        if found.protected_until_s is not None:
            return f"its protected hours last until {rfc3339(found.protected_until_s)}"
        try:
            speaker = self._switch.workload(found.group)[1]
        except (Refused, ApiError):
            speaker = found.group  # else it may hold a copy of what the workload said once
        why = saving([speaker, *self._looking.running(found.key)], now)
        if why:
            return why
        for other in self._switch.beside(found.group, self._looking.holds):
            if read(other) is None:
                return f"{other['metadata']['name']} of the same workload is not idle"
        return ""

    def _act(self, found: Finding, record: IdleRecord) -> IdleRecord | None:
        reason = words.SUSPENDED if record.action == "suspend" else words.EVICTED
        try:
            if record.action == "suspend":
                why = f"by its queue's rule for idle jobs: it {words.finding(found.use, record)}"
                how = f"{self._switch.off(found.group, why)} suspended"
                done = self._note(found.group, {names.IDLE: None})
            else:
                self._switch.workload(found.group)
                stamp, how = rfc3339(self._runtime.clock.now()), "Evicted"
                done = self._note(found.group, {names.IDLE: None, names.IDLE_EVICTED: stamp})
        except Refused as error:
            text = f"{words.finding(found.use, record)}, but it stays: {error}"
            return self._settle(found, record, words.FAILED, text)
        except Conflict:
            self._runtime.enqueue(self.name, "look", 1.0)
            return record
        except ApiError as error:
            log.warning("the idle rule cannot act on %s: %s", found.key.name, error)
            self._say(found, words.FAILED, f"{words.finding(found.use, record)}; refused: {error}")
            return record
        if done:
            self._say(found, reason, words.done(found.use, record, how))
        return None

    def _settle(self, found: Finding, record: IdleRecord, reason: str, text: str) -> IdleRecord:
        """Says how it ended; nothing more follows while it stays idle."""
        record = record._replace(done=True)
        if self._note(found.group, {names.IDLE: written(record)}):
            self._say(found, reason, text)
        return record

    # ------------------------------------------------------------------ back to normal

    def _take_back(self, idle: dict[Key, float], ruled: bool, now: float) -> None:
        """Gangs with a mark that holds no longer."""
        for group in self._groups.by_index(_MARKED, "yes"):
            key = key_of(group)
            if not in_shard(group, self._config):
                continue
            notes = _notes(group)
            if names.IDLE_EVICTED in notes:
                since = _moment(notes[names.IDLE_EVICTED])
                if not self._looking.holds(key) and now >= since + AWAY_S:
                    self._note(group, {names.IDLE_EVICTED: None})
            elif key not in idle and names.IDLE in notes:
                self._withdraw(group, ruled, now)

    def _withdraw(self, group: Object, ruled: bool, now: float) -> None:
        use = self._looking.use_of(key_of(group), now)
        if not ruled:
            why = "no queue has a rule for idle jobs any more"
        elif use.problem:
            why = f"it cannot be said any more whether it is idle: {use.problem}"
        elif use.utilization is None:
            why = "it does not run"
        else:
            why = f"it uses {use.utilization * 100:.2g} % of its GPUs, or no rule holds for it"
        if self._note(group, {names.IDLE: None}):
            self._set_condition(group, False, words.ENDED, why)
            self._events.tell(group, words.ENDED, f"the warning is taken back: {why}")

    # ------------------------------------------------------------------ writes

    def _say(self, found: Finding, reason: str, text: str) -> None:
        """To the gang, its user and who listens; the same reason is said once."""
        known = find(found.group, words.IDLE)
        if known.get("status") == "True" and known.get("reason") == reason != words.WARNING:
            return
        self._set_condition(found.group, True, reason, text)
        warning = reason not in (words.DRY_RUN, words.POSTPONED)
        self._events.tell(found.group, reason, text, warning=warning)
        for told in self.told:
            told(found.key, reason, text)

    def _set_condition(self, group: Object, status: bool, reason: str, text: str) -> None:
        key = key_of(group)
        group = self._groups.get(key.name, key.namespace) or group
        now = rfc3339(self._runtime.clock.now())
        made = condition(words.IDLE, status, reason, text, now=now)
        conditions = merged((group.get("status") or {}).get("conditions") or (), [made])
        self._patch(key, {"status": {"conditions": conditions}}, subresource="status")

    def _note(self, group: Object, notes: dict[str, str | None]) -> bool:
        return self._patch(key_of(group), {"metadata": {"annotations": notes}})

    def _patch(self, key: Key, patch: Object, subresource: str = "") -> bool:
        try:
            answer = self._runtime.port.patch(
                kinds.POD_GROUP, key.name, patch, key.namespace, subresource=subresource
            )
        except NotFound:
            return False
        except ApiError as error:
            log.warning("PodGroup %s is not marked: %s", key.name, error)
            return False
        self._groups.remember(answer)
        return True


def _same_rule(record: IdleRecord, rule: IdleRule, due: Callable[[float], float]) -> bool:
    said = (record.rule, record.action, record.enforce)
    wanted = due(record.warned_s + rule.after_s)
    return said == (str(rule), rule.action, rule.enforce) and abs(record.due_s - wanted) < 2.0


def _marked(group: Object) -> tuple[str, ...]:
    notes = group["metadata"].get("annotations")
    if not isinstance(notes, dict):
        return ()
    return ("yes",) if names.IDLE in notes or names.IDLE_EVICTED in notes else ()


def _notes(group: Object) -> dict[str, str]:
    return group["metadata"].get("annotations") or {}


def _moment(text: str) -> float:
    try:
        return epoch(text)
    except (ValueError, TypeError):
        return 0.0

"""The lives of jobs: one stream of events, from PodGroups, cycles and evictions.

PodGroups tell who a job is, why it waits and how it ended; cycles tell where it got its places,
how it grew and shrank; the evictor tells who had to leave for whom. Work is done for gangs that
changed only. What a start of the process finds is told again and marked so.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import epoch
from kai_ray.cluster.port import Key, Object, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.suspension import SUSPEND, is_suspended
from kai_ray.controllers import facts as f
from kai_ray.controllers.conditions import find
from kai_ray.controllers.cycle import Cycle
from kai_ray.controllers.eviction_words import EVICTED, NOTICED
from kai_ray.controllers.facts import GangFacts
from kai_ray.controllers.podgroup_status import started
from kai_ray.podgrouper.outcome import outcome
from kai_ray.scheduler.snapshot import GPU
from kai_ray.sight.events import JobEvent, What
from kai_ray.sight.life import Life, life_of, refresh
from kai_ray.sight.placed import NOWHERE, Place, places

log = logging.getLogger(__name__)

Subscriber = Callable[[JobEvent], None]
#: What a gang has lost is told after this long: most often it is about to end well.
SETTLE_S = 1.0
#: How often workloads without a gang are looked at, whether they still exist.
_LOOK_S = 60.0
_LOST, _GONE, _WITHOUT = "lost ", "gone ", "without gangs"


class Lives:
    """Part of Sight, whose keys it uses: "lost ns/name", "gone ns/name", "without gangs"."""

    def __init__(self, controller: str, figures: Callable[[Key], list[int] | None]) -> None:
        """`figures` are those of a gang after the last cycle (facts.py)."""
        self._controller = controller
        self._figures = figures
        self._subscribers: tuple[Subscriber, ...] = ()
        self._lives: dict[Key, Life] = {}
        self._of_job: dict[str, dict[Key, Life]] = {}
        self._gone: dict[Key, tuple[Life, float]] = {}
        self._without: dict[str, Life] = {}  # jobs whose gang has gone and may come again
        self._waiting: Counter[tuple[str, str]] = Counter()
        self._kinds_of: tuple[list[str], list[tuple[str, str]]] = ([], [])
        self.started = 0

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._since_s = int(runtime.clock.now())  # as exact as timestamps of objects
        self._nodes = runtime.informer(kinds.NODE)
        runtime.informer(kinds.POD_GROUP).on_change(self._seen)

    # ------------------------------------------------------------------ reading

    def of(self, group: Key) -> Life | None:
        return self._lives.get(group)

    def of_job(self, uid: str) -> list[Life]:
        """The gangs of a workload."""
        return list(self._of_job.get(uid, {}).values())

    def all(self) -> list[Life]:
        return list(self._lives.values())

    def reasons(self) -> dict[tuple[str, str], int]:
        """(queue, reason) -> gangs that wait for their start."""
        return {slot: count for slot, count in dict(self._waiting).items() if count > 0}

    # ------------------------------------------------------------------ telling

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Calls back on the loop's thread; whoever is called must return at once."""
        self._subscribers = (*self._subscribers, callback)

        def end() -> None:
            self._subscribers = tuple(s for s in self._subscribers if s is not callback)

        return end

    def warn(self, group: Key, reason: str, message: str) -> None:
        """Tells that a job holds what it does not use, or the like."""
        life = self._lives.get(group)
        if life is not None:
            self._tell(life, self._runtime.clock.now(), "warned", reason, message)

    def _tell(
        self,
        life: Life,
        at_s: float,
        what: What,
        reason: str = "",
        message: str = "",
        **more: Any,
    ) -> None:
        event = life.event(at_s, what, reason, message, **more)
        for callback in self._subscribers:
            try:
                callback(event)
            except Exception:
                log.exception("a listener stumbled over %s of %s", what, life.job)

    # ------------------------------------------------------------------ PodGroups

    def _seen(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self._vanished(key_of(old))
            return
        key = key_of(new)
        life = self._lives.get(key)
        if life is not None and life.group_uid != (new["metadata"].get("uid") or ""):
            self._vanished(key)
            life = None
        if life is None:
            self._appeared(key, new)
        else:
            self._changed(life, new)

    def _appeared(self, key: Key, group: Object) -> None:
        now = self._runtime.clock.now()
        created_s = min(now, _time(group["metadata"].get("creationTimestamp"), now))
        old = created_s < self._since_s
        life = life_of(group, key, created_s)
        before = self._without.pop(life.uid, None) or self._of_gone(life.uid)
        owner = self._owner(life)
        made_s = _time(((owner or {}).get("metadata") or {}).get("creationTimestamp"), created_s)
        life.created_s = min(made_s, created_s)
        life.since_s = created_s
        if before is not None:
            life.starts, life.evictions = before.starts, before.evictions
        self._put(life)
        if before is None and len(self._of_job[life.uid]) == 1:
            self._tell(life, life.created_s, "created", replayed=old)
        self._tell(life, created_s, "grouped", replayed=old)
        self._changed(life, group, replayed=old)

    def _of_gone(self, uid: str) -> Life | None:
        """The job is there again before it was told that it had gone."""
        for key, (life, _) in list(self._gone.items()):
            if life.uid == uid:
                del self._gone[key]
                return life
        return None

    def _changed(self, life: Life, group: Object, replayed: bool = False) -> None:
        if life.phase == "ended":
            return
        refresh_queue = life.queue
        refresh(life, group)
        if refresh_queue != life.queue and life.phase == "waiting" and life.reason:
            self._waiting[refresh_queue, life.reason] -= 1
            self._waiting[life.queue, life.reason] += 1
        if replayed:
            self._catch_up(life, group)
        now = self._runtime.clock.now()
        finished = find(group, "Finished")
        if finished.get("status") == "True":
            at_s = _time(finished.get("lastTransitionTime"), now) if replayed else now
            word = "Failed" if finished.get("reason") == "WorkloadFailed" else "Succeeded"
            self._end(life, at_s, word, finished.get("message") or "", replayed)
            return
        noticed = find(group, NOTICED)
        message = noticed.get("message") or "" if noticed.get("status") == "True" else ""
        if message != life.noticed:
            life.noticed = message
            if message:
                reason = noticed.get("reason") or ""
                self._tell(life, now, "noticed", reason, message, replayed=replayed)
        scheduled = find(group, "Scheduled")
        if life.phase == "waiting" and scheduled.get("status") == "False":
            reason, message = scheduled.get("reason") or "", scheduled.get("message") or ""
            at_s = _time(scheduled.get("lastTransitionTime"), now) if replayed else now
            self._waits(life, at_s, reason, message, replayed)

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
            self._tell(life, life.since_s, "evicted", *words, replayed=True)

    def _waits(
        self, life: Life, at_s: float, reason: str, message: str, replayed: bool = False
    ) -> None:
        life.message = message
        if reason == life.reason:
            return
        self._forget_wait(life)
        life.reason, life.since_s = reason, at_s
        if reason:
            self._waiting[life.queue, reason] += 1
            self._tell(life, at_s, "waits", reason, message, replayed=replayed)

    def _forget_wait(self, life: Life) -> None:
        if life.phase == "waiting" and life.reason:
            self._waiting[life.queue, life.reason] -= 1
            if self._waiting[life.queue, life.reason] <= 0:
                del self._waiting[life.queue, life.reason]
        life.reason = ""

    def _end(
        self, life: Life, at_s: float, reason: str, message: str, replayed: bool = False
    ) -> None:
        others = [o for o in self.of_job(life.uid) if o is not life and o.phase != "ended"]
        self._forget_wait(life)
        life.phase, life.since_s, life.message, life.lost_s = "ended", at_s, message, None
        life.place, life.types = NOWHERE, ()
        what: What = "shrunk" if others else "ended"  # a part of the job is done
        self._tell(life, at_s, what, reason, message, replayed=replayed)

    def _vanished(self, key: Key) -> None:
        """Whether the job has gone with its gang is known when its own object has been heard of."""
        life = self._lives.pop(key, None)
        if life is None:
            return
        self._drop(life)
        if life.phase != "ended":
            self._forget_wait(life)
            self._gone[key] = (life, self._runtime.clock.now())
            self._due(_GONE, key, SETTLE_S)

    def _put(self, life: Life) -> None:
        self._lives[life.key] = life
        self._of_job.setdefault(life.uid, {})[life.key] = life

    def _drop(self, life: Life) -> None:
        of = self._of_job.get(life.uid, {})
        of.pop(life.key, None)
        if not of:
            self._of_job.pop(life.uid, None)

    # ------------------------------------------------------------------ cycles

    def observe(self, cycle: Cycle, gangs: GangFacts, moved: Sequence[Key]) -> None:
        """Takes in a cycle; `moved` are gangs with other figures than after the one before."""
        now = self._runtime.clock.now()
        rows = {key: gangs.row_of[key] for key in moved if key in self._lives}
        found = places(cycle, list(rows.values())) if rows else {}
        for key, row in rows.items():
            life = self._lives[key]
            figures = gangs.figures[:, row].tolist()
            asked = f.amounts(figures, gangs, requested=True)[GPU]
            if asked > life.gpus or (asked and not figures[f.SUCCEEDED]):
                life.gpus = asked  # pods that have ended ask for nothing, but they did
            if life.phase != "ended":
                self._moved(life, figures, found.get(row, NOWHERE), cycle, now)
        self._nominated(cycle, now)

    def _moved(
        self, life: Life, figures: list[int], place: Place, cycle: Cycle, now: float
    ) -> None:
        before = life.place
        if place != before:
            life.place, life.types = place, self._types(cycle, place)
        seen, life.placed = life.placed, True
        holds = started(figures)
        if not seen and life.runs:
            self._tell(life, life.since_s, "started", replayed=True)
        if holds and not life.runs:
            self._starts(life, now)
        elif life.runs and place.pods > before.pods and holds:
            if seen:
                self._tell(life, now, "grew")
            life.lost_s = life.lost_s if life.broken else None
        elif life.runs and (place.pods < before.pods or not holds):
            self._lost(life, now)
        elif not life.runs and place.pods != before.pods and seen:
            self._tell(life, now, "grew" if place.pods > before.pods else "shrunk")
        if life.phase == "ready" and not figures[f.READY]:
            life.broken = True
            self._lost(life, now)
        if seen:
            self._ready(life, figures)
        elif life.runs and figures[f.READY] and figures[f.RUNNING]:
            life.phase = "ready"  # since when is not known

    def _ready(self, life: Life, figures: list[int]) -> None:
        if life.phase == "started" and figures[f.READY] and figures[f.RUNNING]:
            life.phase = "ready"
            self._tell(life, self._runtime.clock.now(), "ready")

    def _lost(self, life: Life, now: float) -> None:
        """It holds or runs less than before; whether it ends is known a moment later."""
        if life.lost_s is None:
            life.lost_s = now
            self._due(_LOST, life.key, SETTLE_S)

    def _starts(self, life: Life, now: float) -> None:
        self._forget_wait(life)
        life.phase, life.since_s, life.message = "started", now, ""
        life.nominated, life.broken, life.leaving, life.lost_s = False, False, None, None
        what: What = "resumed" if life.starts else "started"
        life.starts += 1
        self.started += 1
        self._tell(life, now, what)

    def _nominated(self, cycle: Cycle, now: float) -> None:
        plan, encoded = cycle.plan, cycle.encoded
        if not plan.nominate_task.size:
            return
        gang = encoded.snapshot.tasks.gang[plan.nominate_task]
        nodes: dict[int, dict[int, None]] = {}
        for row, node in zip(gang.tolist(), plan.nominate_node.tolist(), strict=True):
            nodes.setdefault(row, {})[node] = None
        for row, on in nodes.items():
            life = self._lives.get(encoded.names.gang(row))
            if life is not None and not life.nominated and life.phase == "waiting":
                life.nominated = True
                where = tuple(encoded.names.node(n) for n in on)
                self._tell(life, now, "nominated", nodes=where)

    def _types(self, cycle: Cycle, place: Place) -> tuple[tuple[str, str, float], ...]:
        """GPUs by product and node pool."""
        nodes = cycle.encoded.names.nodes
        if self._kinds_of[0] is not nodes:
            self._kinds_of = (nodes, [_kind_of(self._nodes.get(name)) for name in nodes])
        sums: dict[tuple[str, str], float] = {}
        for node, gpus in place.by_node:
            if gpus:
                slot = self._kinds_of[1][node]
                sums[slot] = sums.get(slot, 0.0) + gpus
        return tuple((*slot, gpus) for slot, gpus in sorted(sums.items()))

    # ------------------------------------------------------------------ evictions

    def evicted(
        self,
        group: Key,
        reason: str,
        message: str,
        beneficiary: Key | None,
        pods: int,
        whole: bool,
    ) -> None:
        """Pods of a gang had to leave."""
        life = self._lives.get(group)
        if life is None or life.phase == "ended":
            return
        other = self._lives.get(beneficiary) if beneficiary is not None else None
        whom = other.job if other is not None else ""
        if beneficiary is not None and other is None:
            whom = f"PodGroup {beneficiary.namespace}/{beneficiary.name}"
        if not whole:
            life.leaving = (reason, message, whom)
            return
        now = self._runtime.clock.now()
        where = life.place.nodes
        self._forget_wait(life)
        life.phase, life.since_s, life.evicted_s, life.lost_s = "waiting", now, now, None
        life.place, life.types = NOWHERE, ()
        life.evictions += 1
        self._tell(life, now, "evicted", reason, message, for_whom=whom, nodes=where)

    # ------------------------------------------------------------------ later

    def _due(self, what: str, key: Key, after_s: float) -> None:
        self._runtime.enqueue(self._controller, f"{what}{key.namespace}/{key.name}", after_s)

    def reconcile(self, key: str) -> float | None:
        if key == _WITHOUT:
            return self._look_for_owners()
        what, _, name = key.partition(" ")
        namespace, _, name = name.partition("/")
        if f"{what} " == _LOST:
            self._settle(Key(namespace, name))
        elif f"{what} " == _GONE:
            self._gone_for_good(Key(namespace, name))
        return None

    def _settle(self, key: Key) -> None:
        """A gang held less for a moment and has not ended meanwhile."""
        life = self._lives.get(key)
        if life is None or life.lost_s is None or not life.runs:
            return
        at_s, life.lost_s = life.lost_s, None
        broken, life.broken = life.broken, False
        figures = self._figures(key)
        if figures is not None and started(figures):
            words = life.leaving or ("", "", "")
            life.leaving = None
            if not broken:
                self._tell(life, at_s, "shrunk", words[0], words[1], for_whom=words[2])
                return
            reason, message = "PodsReplaced", "pods of its minimum went, and others came for them"
            self._tell(life, at_s, "interrupted", reason, message)
            self._starts(life, at_s)
            self._ready(life, figures)
            return
        owner = self._owner(life)
        if owner is not None and outcome(owner):
            return  # its PodGroup is about to say so
        what: What = "interrupted"
        if owner is not None and is_suspended(self._resource(life), owner):
            what = "suspended"
        life.phase, life.since_s = ("suspended" if what == "suspended" else "waiting"), at_s
        self._tell(life, at_s, what)

    def _gone_for_good(self, key: Key) -> None:
        life, at_s = self._gone.pop(key, (None, 0.0))
        if life is None or self._of_job.get(life.uid):
            return  # another gang of the job goes on
        owner = self._owner(life)
        if owner is None or owner["metadata"].get("deletionTimestamp"):
            self._end(life, at_s, outcome(owner or {}) or "Deleted", "")
            return
        how = outcome(owner)
        if how:
            self._end(life, at_s, how, "")
            return
        suspended = is_suspended(self._resource(life), owner)
        held = life.runs
        life.place, life.types = NOWHERE, ()
        life.phase, life.since_s = ("suspended" if suspended else "waiting"), at_s
        if suspended:
            self._tell(life, at_s, "suspended")
        elif held:
            self._tell(life, at_s, "interrupted", "Regrouped", "its gang is made again")
        self._without[life.uid] = life
        self._runtime.enqueue(self._controller, _WITHOUT, _LOOK_S)

    def _look_for_owners(self) -> float | None:
        """Jobs without a gang end when they are deleted, or say how they ended."""
        for uid, life in list(self._without.items()):
            owner = self._owner(life)
            if owner is None or outcome(owner):
                del self._without[uid]
                how = outcome(owner or {}) or "Deleted"
                self._end(life, self._runtime.clock.now(), how, "")
        return _LOOK_S if self._without else None

    def _resource(self, life: Life) -> Any:
        return kinds.BY_KIND.get((life.api_version, life.kind))

    def _owner(self, life: Life) -> Object | None:
        """The workload itself, of kinds that are watched anyway."""
        resource = self._resource(life)
        if resource is None or resource not in SUSPEND:
            return None
        found = self._runtime.informer(resource).get(life.name, life.key.namespace)
        if found is None or (found["metadata"].get("uid") or "") != life.uid:
            return None
        return found


def _kind_of(node: Object | None) -> tuple[str, str]:
    """Product and node pool."""
    labels = ((node or {}).get("metadata") or {}).get("labels") or {}
    pool = next((labels[name] for name in names.NODE_POOL_NAMES if labels.get(name)), "")
    return str(labels.get(names.GPU_PRODUCT) or ""), str(pool)


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

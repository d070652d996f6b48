"""Notices of eviction: told, waited for, carried out or taken back.

A gang that is given time is not evicted at once. Its PodGroup carries why, for whom and until
when; the workload and its pods carry the same for users, the pods also the condition
DisruptionTarget; Ray is asked to empty its workers, and what asks for a signal is told to end. From
then on the scheduler counts the places as about to be free and keeps them for whom they are. The
pods leave

- when all of them, or the workload for them, report a checkpoint made since (`checkpoint-time`);
- when Ray has emptied them, where that is all there is to wait for;
- at the deadline.

If the one they would leave for is gone or has started elsewhere, the notice is taken back, unless a
signal or Ray's drain has gone out already: those cannot be unsaid, and the pods leave. All of it is
read from the objects: a restart at any line goes on where the last write was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import epoch, rfc3339
from kai_ray.cluster.port import Key, Object, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.wrappers import cached
from kai_ray.controllers.departures import Departures
from kai_ray.controllers.drains import Drains
from kai_ray.controllers.events import Events
from kai_ray.controllers.eviction_words import tell_evicted
from kai_ray.controllers.grace import wants_signal
from kai_ray.controllers.notice_board import NoticeBoard
from kai_ray.controllers.notice_record import Notice, notices_of, with_notice
from kai_ray.controllers.suspensions import BY_GROUP, group_texts
from kai_ray.controllers.victims import PodRef, uid_of
from kai_ray.encode import Encoder
from kai_ray.encode.eviction_facts import TOLD
from kai_ray.encode.settings import EncodeConfig, in_shard
from kai_ray.scheduler.reason import Reason

#: A checkpoint may be dated by a clock that goes before ours by this much.
_SKEW_S = 60.0
_LOOK_AGAIN_S = 5.0
_ENDED = ("Succeeded", "Failed")


class Notices:
    """Keys: a PodGroup, "namespace/name"."""

    name = "notices"

    def __init__(
        self,
        config: EncodeConfig,
        encoder: Encoder,
        departures: Departures,
        events: Events,
        drains: Drains,
    ) -> None:
        self._config = config
        self._encoder = encoder
        self._departures = departures
        self._events = events
        self._drains = drains
        self._board = NoticeBoard(departures, events)
        self._known: dict[Key, tuple[Notice, ...]] = {}

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._departures.setup(runtime)
        self._drains.setup(runtime)
        self._board.setup(runtime)
        self._pods = runtime.informer(kinds.POD)
        self._pods.add_index(BY_GROUP, group_texts)
        self._pods.on_change(self._pod_seen)
        self._groups = runtime.informer(kinds.POD_GROUP)
        self._groups.on_change(self._group_seen)
        self._workloads = cached(runtime)

    def _pod_seen(self, old: Object | None, new: Object | None) -> None:
        if not self._known:
            return
        pod = new if new is not None else old
        assert pod is not None
        for text in group_texts(pod):
            if _key(text) in self._known:
                self._runtime.enqueue(self.name, text)

    def _group_seen(self, old: Object | None, new: Object | None) -> None:
        """At once, so that no decision counts on pods that are on their way out."""
        obj = new if new is not None else old
        assert obj is not None
        key = key_of(obj)
        mine = new is not None and in_shard(new, self._config)
        notices = notices_of(new) if new is not None and mine else ()
        if notices or key in self._known:
            self._keep(key, notices)
            self._runtime.enqueue(self.name, _text(key))
        for other, of in self._known.items():
            if any(n.beneficiary == key for n in of):
                self._runtime.enqueue(self.name, _text(other))

    def _keep(self, key: Key, notices: tuple[Notice, ...]) -> None:
        if notices:
            self._known[key] = notices
        else:
            self._known.pop(key, None)
        going = [n for n in notices if not n.announced]
        self._encoder.set_leaving(key, any(n.whole for n in going), TOLD)
        some = {ref.key.name for n in going if not n.whole for ref in n.pods}
        self._encoder.set_leaving_pods(key, frozenset(some))
        self._runtime.enqueue("scheduler", "cycle")

    # ------------------------------------------------------------------ giving one

    def announce(self, key: Key, reason: Reason, deadline_s: float, message: str) -> None:
        """Tells a gang of an end that comes at a set time; whoever set it ends it."""
        group = self._groups.get(key.name, key.namespace)
        if group is None:
            return
        now = self._runtime.clock.now()
        new = Notice(reason, None, message, now, deadline_s, whole=True, announced=True)
        known = notices_of(group)
        if any(
            n.announced and n.reason is reason and n.deadline_s == new.deadline_s for n in known
        ):
            return
        self._board.write(group, with_notice(known, new))

    def announced(self) -> dict[Key, set[Reason]]:
        """Gangs that were told of an end that somebody set, and which."""
        found = {key: {n.reason for n in of if n.announced} for key, of in self._known.items()}
        return {key: reasons for key, reasons in found.items() if reasons}

    def withdraw_announced(self, key: Key, reason: Reason) -> None:
        """The end that was announced does not come."""
        group = self._groups.get(key.name, key.namespace)
        known = notices_of(group) if group is not None else ()
        now = self._runtime.clock.now()
        gone = [n for n in known if n.announced and n.reason is reason and n.deadline_s > now]
        kept = tuple(n for n in known if n not in gone)
        if group is not None and gone:
            self._take_back(group, gone, kept)

    # ------------------------------------------------------------------ what becomes of it

    def reconcile(self, key: str) -> float | None:
        group_key = _key(key)
        group = self._groups.get(group_key.name, group_key.namespace)
        if group is None or not in_shard(group, self._config):
            self._keep(group_key, ())
            return None
        known = notices_of(group)
        if not known:
            return None
        now = self._runtime.clock.now()
        over = [n for n in known if not self._placed(group, n)]
        unwanted = [n for n in known if n not in over and not n.final and self._unwanted(group, n)]
        if over or unwanted:
            kept = tuple(n for n in known if n not in over and n not in unwanted)
            self._take_back(group, [*over, *unwanted], kept, withdrawn=unwanted)
            return 0.0 if kept else None
        self._board.tell(group, known, self._placed)
        waits = [self._carry_on(group, n, now) for n in known]
        return min((w for w in waits if w is not None), default=None)

    def _carry_on(self, group: Object, notice: Notice, now: float) -> float | None:
        pods = self._placed(group, notice)
        present = [p for p in pods if not p["metadata"].get("deletionTimestamp")]
        if notice.announced or not present:
            return None
        if notice.final and self._departures.under_way(group):
            return _LOOK_AGAIN_S
        if notice.asked and notice.deadline_s > now and wants_signal(group, *present):
            return self._go(group, notice, present, now, notice.deadline_s - now)
        drained, wait_s = self._drain(group, notice, present, now)
        saved_s = self._saved_s(group, notice, present, now)
        if drained or saved_s is not None or now >= notice.deadline_s:
            return self._go(group, notice, present, now, None, saved_s)
        return min(notice.deadline_s - now, wait_s)

    def _drain(
        self, group: Object, notice: Notice, present: list[Object], now: float
    ) -> tuple[bool, float]:
        """Whether Ray needs no more time, and when to look again."""
        if not notice.drains:
            return False, float("inf")
        slot = _text(key_of(group))
        seen = self._drains.look(
            group, present, notice, now, lambda: self._runtime.enqueue(self.name, slot)
        )
        if seen.irreversible and not notice.final:
            self._board.replace(group, dataclasses.replace(notice, final=True))
        if seen.all_drained or (seen.nothing_to_wait_for and not notice.asked):
            return True, 0.0
        return False, seen.again_s

    def _saved_s(
        self, group: Object, notice: Notice, pods: list[Object], now: float
    ) -> float | None:
        """When the work of these pods was saved, if that was after the notice."""
        whole = _saved_since(group, notice.since_s, now)
        if whole is not None:
            return whole
        each = [_saved_since(p, notice.since_s, now) for p in pods if _runs(p)]
        times = [t for t in each if t is not None]
        return min(times) if times and len(times) == len(each) else None

    def _unwanted(self, group: Object, notice: Notice) -> bool:
        """Whether nobody needs the room any more."""
        if notice.announced:
            return False
        if notice.reason is Reason.SUSPENDED:
            return _annotations(group).get(names.SUSPENDED) != "true"
        if notice.beneficiary is None:
            return False
        other = self._groups.get(notice.beneficiary.name, notice.beneficiary.namespace)
        return other is None or names.HOLD not in _annotations(other)

    # ------------------------------------------------------------------ they go

    def _go(
        self,
        group: Object,
        notice: Notice,
        present: list[Object],
        now: float,
        grace_s: float | None,
        saved_s: float | None = None,
    ) -> float | None:
        """Records the eviction, then sends the pods away. From here on there is no way back."""
        last_s = _time(_annotations(group).get(names.LAST_EVICTION))
        first = last_s is None or last_s < notice.since_s
        final = dataclasses.replace(notice, final=True)
        group = self._board.replace(group, final, _evicted_notes(now, saved_s))
        self._board.say_evicted(group, notice, now)
        if saved_s is not None:
            self._board.note_workload(group, {names.CHECKPOINT_TIME: rfc3339(saved_s)})
        refs = [PodRef(key_of(p), uid_of(p)) for p in present]
        if notice.whole:
            gone = self._departures.whole(group, refs, notice.message, now, grace_s)
        else:
            gone = self._departures.surplus(refs, notice.message, grace_s)
        if first and gone:
            found = (self._groups, self._workloads)
            tell_evicted(self._events, *found, final, len(gone), group)
        return _LOOK_AGAIN_S

    def _take_back(
        self,
        group: Object,
        gone: Iterable[Notice],
        kept: tuple[Notice, ...],
        withdrawn: Iterable[Notice] = (),
    ) -> None:
        """Strikes notices; of those withdrawn the pods are told that they stay."""
        told = [p for n in gone for p in self._placed(group, n)]
        stays = [p for p in told if not p["metadata"].get("deletionTimestamp")]
        self._board.write(group, kept)
        if not any(n.whole for n in kept):
            self._board.note_workload(group, {names.EVICTION_NOTICE: None})
        self._board.note_pods(stays, None)
        withdrawn = list(withdrawn)
        if withdrawn:
            self._departures.tell_pods(stays, "the eviction was called off", going=False)
            text = "nobody needs its room any more: it stays"
            self._events.tell(group, "EvictionWithdrawn", text)

    # ------------------------------------------------------------------ whose pods

    def _placed(self, group: Object, notice: Notice) -> list[Object]:
        """Pods that the notice is for and that hold a place, those that end included."""
        if notice.whole:
            found = self._pods.by_index(BY_GROUP, _text(key_of(group)))
        else:
            known = ((r, self._pods.get(r.key.name, r.key.namespace)) for r in notice.pods)
            found = [p for r, p in known if p is not None and uid_of(p) == r.uid]
        return [p for p in found if p["spec"].get("nodeName") and not _ended(p)]


def _evicted_notes(now: float, saved_s: float | None) -> dict[str, str]:
    notes = {names.LAST_EVICTION: rfc3339(now)}
    if saved_s is not None:
        notes[names.CHECKPOINT_TIME] = rfc3339(saved_s)
    return notes


def _saved_since(obj: Object, since_s: float, now: float) -> float | None:
    saved = _time(_annotations(obj).get(names.CHECKPOINT_TIME))
    return saved if saved is not None and since_s <= saved <= now + _SKEW_S else None


def _time(text: str | None) -> float | None:
    try:
        return epoch(text) if text else None
    except (ValueError, TypeError):
        return None


def _runs(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running"


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED


def _annotations(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _text(key: Key) -> str:
    return f"{key.namespace}/{key.name}"


def _key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    return Key(namespace, name)

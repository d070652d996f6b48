"""Where a notice is written: the gang's own record, and what users and pods read of it.

The record on the PodGroup comes first and is what counts; the rest is told again until it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import ApiError, NotFound, Object, Write, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.conditions import condition, find, merged
from kai_ray.controllers.departures import Departures
from kai_ray.controllers.events import Events
from kai_ray.controllers.eviction_words import EVICTED, NOTICED, notice_message
from kai_ray.controllers.notice_record import Notice, for_users, notices_of, write_notices
from kai_ray.controllers.owners import top_owner
from kai_ray.controllers.victims import uid_of

#: The pods of a gang that a notice is for and that hold a place.
Placed = Callable[[Object, Notice], list[Object]]


class NoticeBoard:
    def __init__(self, departures: Departures, events: Events) -> None:
        self._departures = departures
        self._events = events

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pods = runtime.informer(kinds.POD)
        self._groups = runtime.informer(kinds.POD_GROUP)

    # ------------------------------------------------------------------ the record

    def replace(self, group: Object, new: Notice, notes: dict[str, str] | None = None) -> Object:
        """Writes a notice in the place of the one it stands for; the PodGroup as it is then."""
        known = self._groups.get(*reversed(key_of(group))) or group
        fresh = tuple(new if n.slot == new.slot else n for n in notices_of(known))
        return self.write(group, fresh, notes)

    def write(
        self, group: Object, notices: tuple[Notice, ...], notes: dict[str, str] | None = None
    ) -> Object:
        """The whole record, with other annotations beside it."""
        key = key_of(group)
        said: dict[str, str | None] = dict(notes or {})
        said[names.EVICTION_NOTICES] = write_notices(notices)
        patch = {"metadata": {"annotations": said}}
        try:
            answer = self._runtime.port.patch(kinds.POD_GROUP, key.name, patch, key.namespace)
        except NotFound:
            return group
        self._groups.remember(answer)
        if not notices:
            self._set_conditions(answer, [], drop=(NOTICED,))
        return answer

    def say_evicted(self, group: Object, notice: Notice, now: float) -> None:
        """The condition of a gang that has to go now."""
        made = condition(EVICTED, True, notice.reason.word, notice.message, now=rfc3339(now))
        self._set_conditions(group, [made])

    # ------------------------------------------------------------------ what others read

    def tell(self, group: Object, notices: Iterable[Notice], placed: Placed) -> None:
        """Annotations and conditions that are still missing; of several notices the first due."""
        told: set[str] = set()
        ordered = sorted(notices, key=lambda n: n.deadline_s)
        for notice in ordered:
            mine = [p for p in placed(group, notice) if uid_of(p) not in told]
            told.update(map(uid_of, mine))
            said = for_users(notice)
            present = [p for p in mine if not p["metadata"].get("deletionTimestamp")]
            fresh = [p for p in present if _told(p) != said]
            if not fresh:
                continue
            if notice is ordered[0]:
                self.note_workload(group, {names.EVICTION_NOTICE: said})
                self._say(group, notice, len(present))
            self.note_pods(fresh, said)
            if not notice.announced:
                self._departures.tell_pods(fresh, notice.message)

    def _say(self, group: Object, notice: Notice, pods: int) -> None:
        message = notice_message(notice, pods)
        if find(group, NOTICED).get("message") == message:
            return
        now = rfc3339(self._runtime.clock.now())
        made = condition(NOTICED, True, notice.reason.word, message, now=now)
        self._set_conditions(group, [made])
        self._events.tell(group, "EvictionNotice", message, warning=True)

    def note_pods(self, pods: Iterable[Object], said: str | None) -> None:
        patch, writes = self._runtime.port.patch, list[Write]()
        for pod in pods:
            meta = {"uid": uid_of(pod), "annotations": {names.EVICTION_NOTICE: said}}
            space = pod["metadata"].get("namespace") or ""
            writes.append(
                Write(patch, (kinds.POD, pod["metadata"]["name"], {"metadata": meta}, space))
            )
        for answer in self._runtime.port.batch(writes) if writes else ():
            if isinstance(answer, dict):
                self._pods.remember(answer)

    def note_workload(self, group: Object, notes: dict[str, str | None]) -> None:
        """On the user's own object, where we may: without it the pods still know."""
        owner = top_owner(group)
        if owner is None:
            return
        meta: Object = {"annotations": notes}
        if owner.uid:
            meta["uid"] = owner.uid
        args = (owner.resource, owner.key.name, {"metadata": meta}, owner.key.namespace)
        self._runtime.port.batch([Write(self._runtime.port.patch, args)])

    def _set_conditions(
        self, group: Object, made: list[Object], drop: tuple[str, ...] = ()
    ) -> None:
        """For people only: what cannot be written is not in the way."""
        key = key_of(group)
        known = self._groups.get(key.name, key.namespace) or group
        old = (known.get("status") or {}).get("conditions") or ()
        patch = {"status": {"conditions": merged(old, made, drop)}}
        args = (kinds.POD_GROUP, key.name, patch, key.namespace)
        write = Write(self._runtime.port.patch, args, {"subresource": "status"})
        (answer,) = self._runtime.port.batch([write])
        if not isinstance(answer, ApiError):
            self._groups.remember(answer)


def _told(pod: Object) -> str | None:
    return (pod["metadata"].get("annotations") or {}).get(names.EVICTION_NOTICE)

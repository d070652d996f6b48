"""From what happens to jobs to messages: who asked for it, and of what.

A Queue's annotations hold for its jobs and, inherited, for the queues below; a workload's own are
told besides. A standby says nothing, and a start of the process says nothing again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from kai_ray.api import labels as names
from kai_ray.api.notify import SILENT, Notify, lenient
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key, Object, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.history.job_event import JobEvent
from kai_ray.sight.notify.message import Message
from kai_ray.sight.notify.telling import told
from kai_ray.sight.sight import Sight

_KEYS = (names.NOTIFY, names.NOTIFY_ON, names.NOTIFY_AFTER)
_BEGIN, _EVERY_WAIT = "begin", "every wait"
#: Jobs that have gone, whose end may still have to be told.
_REMEMBERED = 1000
_DEEPEST = 64
_WAITS_AGAIN = frozenset({"evicted", "interrupted"})
_WAITS_NO_MORE = frozenset({"started", "resumed", "suspended", "ended"})


class Post(Protocol):
    """Takes a message for a channel or an address, and returns at once."""

    def send(self, target: str, message: Message) -> None: ...


@dataclass(slots=True)
class _Wait:
    since_s: float
    event: JobEvent
    told: set[str] = field(default_factory=set[str])  # targets


class Notifier:
    """A controller; keys are "begin", "every wait" and "namespace/PodGroup" of what waits."""

    name = "notifier"

    def __init__(self, sight: Sight, post: Post, pool: str | None = None) -> None:
        """`pool`: tells of that node pool alone; None: of all."""
        self._sight = sight
        self._post = post
        self._pool = pool
        self._own: dict[Key, Notify] = {}
        self._left: OrderedDict[Key, Notify] = OrderedDict()
        self._queues: dict[str, Notify] = {}
        self._waits: dict[Key, _Wait] = {}
        self._runs: dict[Key, float] = {}
        self._acting_since_s: float | None = None
        sight.subscribe(self._happened)

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._queue_cache = runtime.informer(kinds.QUEUE)
        self._queue_cache.on_change(self._queue_changed)
        runtime.informer(kinds.POD_GROUP).on_change(self._group_changed)
        runtime.enqueue(self.name, _BEGIN)

    def reconcile(self, key: str) -> float | None:
        now = self._runtime.clock.now()
        if key == _BEGIN:
            self._acting_since_s = now
        elif key == _EVERY_WAIT:
            for group in list(self._waits):
                self._look_later(group)
        else:
            return self._look(Key(*key.split("/", 1)), now)
        return None

    # ------------------------------------------------------------------ who is told

    def _wishes(self, group: Key, queue: str) -> Iterator[Notify]:
        """The queue's and the job's."""
        of_queue = self._of_queue(queue)
        if of_queue.targets:
            yield of_queue
        own = self._own.get(group) or self._left.get(group)
        if own is not None and own.targets:
            yield own

    def _of_queue(self, name: str) -> Notify:
        known = self._queues.get(name)
        if known is None:
            known, above = SILENT, name
            for _ in range(_DEEPEST):
                queue = self._queue_cache.get(above) if above else None
                if queue is None:
                    break
                known = known.below(lenient(_notes(queue)))
                above = (queue.get("spec") or {}).get("parentQueue") or ""
            self._queues[name] = known
        return known

    def _queue_changed(self, old: Object | None, new: Object | None) -> None:
        if (
            old is None
            or new is None
            or _stated(old) != _stated(new)
            or _parent(old) != _parent(new)
        ):
            self._queues.clear()
            if self._waits:
                self._runtime.enqueue(self.name, _EVERY_WAIT)

    def _group_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self._group_gone(key_of(old))
            return
        notes = _notes(new)
        if names.NOTIFY not in notes:
            if old is not None and names.NOTIFY in _notes(old):
                self._own.pop(key_of(new), None)
            return
        if old is None or _stated(old) != _stated(new):
            key = key_of(new)
            self._own[key] = lenient(notes)
            if key in self._waits:
                self._look_later(key)

    def _group_gone(self, key: Key) -> None:
        own = self._own.pop(key, None)
        if own is not None:
            self._left[key] = own
            if len(self._left) > _REMEMBERED:
                self._left.popitem(last=False)

    # ------------------------------------------------------------------ what happens

    def _happened(self, event: JobEvent) -> None:
        if self._pool is not None and event.pool != self._pool:
            return
        key = Key(event.namespace, event.group)
        wait, began_s = self._waits.get(key), self._runs.get(key)
        self._follow(key, event)
        if event.replayed or event.what == "waits" or not self._runtime.leads:
            return
        wishes = list(self._wishes(key, event.queue))
        if wishes:
            waited_s = event.at_s - wait.since_s if wait is not None else None
            ran_s = event.at_s - began_s if began_s is not None else None
            found, heard = told(event, waited_s, ran_s), set[str]()
            for wish in wishes:
                if found is not None and wish.wants(found.kind):
                    self._tell(wish, found, heard)
        if event.what == "ended":
            self._left.pop(key, None)

    def _follow(self, key: Key, event: JobEvent) -> None:
        """Keeps since when it waits or runs."""
        what = event.what
        first = what == "grouped" or (what == "waits" and key not in self._waits)
        if first or what in _WAITS_AGAIN:
            self._waits[key] = _Wait(event.at_s, event)
            self._runs.pop(key, None)
            self._look_later(key)
        elif what in _WAITS_NO_MORE:
            self._waits.pop(key, None)
            self._runs.pop(key, None)
            if what in ("started", "resumed"):
                self._runs[key] = event.at_s

    # ------------------------------------------------------------------ long waits

    def _look_later(self, key: Key) -> None:
        wait = self._waits[key]
        now = self._runtime.clock.now()
        for wish in self._wishes(key, wait.event.queue):
            if wish.wants("waiting"):
                after_s = max(0.0, wait.since_s + wish.patience_s - now)
                self._runtime.enqueue(self.name, f"{key.namespace}/{key.name}", after_s)

    def _look(self, key: Key, now: float) -> float | None:
        """Tells of a wait that is long by now; or how long it has to last still."""
        wait, life = self._waits.get(key), self._sight.lives.of(key)
        if wait is None or life is None:
            self._waits.pop(key, None)
            return None
        left: list[float] = []
        for wish in self._wishes(key, life.queue):
            if not wish.wants("waiting"):
                continue
            due_s = wait.since_s + wish.patience_s
            if due_s > now:
                left.append(due_s - now)
            elif self._acting_since_s is not None and due_s >= self._acting_since_s:
                event = life.event(now, "waits", life.reason, life.message)
                message = told(event, now - wait.since_s, None)
                assert message is not None
                self._tell(wish, message, wait.told)
        return min(left, default=None)

    def _tell(self, wish: Notify, message: Message, told_already: set[str]) -> None:
        for target in wish.targets or ():
            if target not in told_already:
                told_already.add(target)
                self._post.send(target, message)


def _notes(obj: Object) -> dict[str, Any]:
    return obj["metadata"].get("annotations") or {}


def _stated(obj: Object) -> tuple[Any, ...]:
    notes = _notes(obj)
    return tuple(notes.get(key) for key in _KEYS)


def _parent(queue: Object) -> Any:
    return (queue.get("spec") or {}).get("parentQueue")

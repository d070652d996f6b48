"""Informers and controllers on one loop: level-triggered, the same in real and in virtual time.

A controller names what it watches and reconciles keys. The loop pumps watches into caches, turns
events into keys, and calls `reconcile` for each key that is due. Nothing else in the project starts
a loop of its own, so a simulation that owns the clock owns everything.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from .clock import Clock, VirtualClock
from .port import ApiError, Conflict, Gone, Key, Object, Port, Resource, Watch, key_of

log = logging.getLogger(__name__)

#: (old, new): old is None for an addition, new is None for a deletion.
Handler = Callable[[Object | None, Object | None], None]
Index = Callable[[Object], Iterable[str]]

BACKOFF_FIRST_S = 0.2
BACKOFF_LAST_S = 60.0


class Controller(Protocol):
    """Reconciles keys. Raising: again later, with back-off; a number: in so many seconds."""

    name: str

    def setup(self, runtime: Runtime) -> None:
        """Declare watches: `runtime.informer(RESOURCE).on_change(handler)`."""
        ...

    def reconcile(self, key: str) -> float | None: ...


class Informer:
    """The cache of one resource, kept by list and watch. Objects are shared: never change them."""

    def __init__(self, resource: Resource, wake: Callable[[], None]) -> None:
        self.resource = resource
        self._wake = wake
        self._objects: dict[Key, Object] = {}
        self._handlers: list[Handler] = []
        self._indexers: dict[str, Index] = {}
        self._indices: dict[str, dict[str, dict[Key, Object]]] = {}
        self._watch: Watch | None = None
        self._version = ""

    @property
    def connected(self) -> bool:
        """Whether a watch is open: without one the cache only grows old."""
        return self._watch is not None

    def get(self, name: str, namespace: str = "") -> Object | None:
        return self._objects.get(Key(namespace, name))

    def list(self, namespace: str | None = None) -> list[Object]:
        if namespace is None:
            return list(self._objects.values())
        return [o for k, o in self._objects.items() if k.namespace == namespace]

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def add_index(self, name: str, index: Index) -> None:
        """Adds an index once; later calls with the same name are ignored."""
        if name in self._indexers:
            return
        self._indexers[name] = index
        table: dict[str, dict[Key, Object]] = defaultdict(dict)
        for key, obj in self._objects.items():
            for value in index(obj):
                table[value][key] = obj
        self._indices[name] = table

    def by_index(self, name: str, value: str) -> list[Object]:
        return list(self._indices[name].get(value, {}).values())

    def on_change(self, handler: Handler) -> None:
        """Called for every later change, and now for every object already known."""
        self._handlers.append(handler)
        for obj in list(self._objects.values()):
            handler(None, obj)

    def start(self, port: Port) -> None:
        """Lists and opens the watch; changes against the cache are reported to the handlers."""
        self.close()
        found: dict[Key, Object] = {}
        token = ""
        while True:
            page = port.list(self.resource, limit=500, continue_token=token)
            for obj in page.items:
                found[key_of(obj)] = obj
            token = page.continue_token
            if not token:
                break
        self._version = page.resource_version
        for key in [k for k in self._objects if k not in found]:
            self._put(key, None)
        for key, obj in found.items():
            old = self._objects.get(key)
            if old is None or _version(old) != _version(obj):
                self._put(key, obj)
        self._open(port)

    def _open(self, port: Port) -> None:
        self._watch = port.watch(self.resource, resource_version=self._version, on_event=self._wake)

    def pump(self, port: Port) -> int:
        """Takes in what the watch has; the number of changes. Reopens or relists as needed."""
        taken = 0
        try:
            if self._watch is None:
                self.start(port)
            assert self._watch is not None
            while (event := self._watch.next(0.0)) is not None:
                self._version = event.object["metadata"].get("resourceVersion", self._version)
                if event.type == "BOOKMARK":
                    continue
                self._put(key_of(event.object), None if event.type == "DELETED" else event.object)
                taken += 1
        except Gone:
            self.start(port)
            taken += 1
        return taken

    def remember(self, obj: Object) -> None:
        """Takes in the answer to one's own write, so that the next read is not older than it."""
        key = key_of(obj)
        old = self._objects.get(key)
        if old is None or _newer(obj, old):
            self._put(key, obj)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _put(self, key: Key, new: Object | None) -> None:
        old = self._objects.get(key)
        if new is not None and old is not None and _newer(old, new):
            return
        if new is None:
            if old is None:
                return
            del self._objects[key]
        else:
            self._objects[key] = new
        for name, index in self._indexers.items():
            table = self._indices[name]
            if old is not None:
                for value in index(old):
                    members = table.get(value)
                    if members is not None:
                        members.pop(key, None)
                        if not members:
                            del table[value]
            if new is not None:
                for value in index(new):
                    table.setdefault(value, {})[key] = new
        for handler in self._handlers:
            handler(old, new)


def _version(obj: Object) -> str:
    return obj["metadata"].get("resourceVersion", "")


def _newer(a: Object, b: Object) -> bool:
    """Whether `a` is known to be newer than `b` (same UID, numerically larger version)."""
    va, vb = _version(a), _version(b)
    return (
        a["metadata"].get("uid") == b["metadata"].get("uid")
        and va.isdigit()
        and vb.isdigit()
        and int(va) > int(vb)
    )


class Runtime:
    """One loop for all controllers over one port."""

    def __init__(self, port: Port, clock: Clock) -> None:
        self.port = port
        self.clock = clock
        self._informers: dict[Resource, Informer] = {}
        self._controllers: dict[str, Controller] = {}
        self._due: list[tuple[float, int, str, str]] = []
        self._when: dict[tuple[str, str], float] = {}
        self._failures: dict[tuple[str, str], int] = {}
        self._order = itertools.count()
        self._signal = threading.Event()
        self._stop = threading.Event()
        self.errors = 0

    def informer(self, resource: Resource) -> Informer:
        found = self._informers.get(resource)
        if found is None:
            found = self._informers[resource] = Informer(resource, self._signal.set)
        return found

    def disconnected(self) -> list[str]:
        """Plurals of the kinds whose caches are not kept up to date just now."""
        return sorted(i.resource.plural for i in self._all() if not i.connected)

    def _all(self) -> list[Informer]:
        return list(self._informers.values())

    def add(self, controller: Controller) -> None:
        if controller.name in self._controllers:
            raise ValueError(f"two controllers are called {controller.name!r}")
        self._controllers[controller.name] = controller
        controller.setup(self)

    def enqueue(self, controller: str, key: str, after_s: float = 0.0) -> None:
        """Makes a key due; an earlier due time wins. Safe from any thread."""
        when = self.clock.now() + after_s
        slot = (controller, key)
        known = self._when.get(slot)
        if known is not None and known <= when:
            return
        self._when[slot] = when
        heapq.heappush(self._due, (when, next(self._order), controller, key))
        self._signal.set()

    def wake(self) -> None:
        self._signal.set()

    def run_once(self) -> float | None:
        """Pumps and reconciles until nothing is due; when the next key is due, or None."""
        while not self._stop.is_set():
            changed = 0
            for informer in self._all():
                try:
                    changed += informer.pump(self.port)
                except ApiError as error:
                    self.errors += 1
                    log.warning("watch of %s failed: %s", informer.resource.plural, error)
                    informer.close()
            ran = self._run_due()
            if not changed and not ran:
                break
        return self._due[0][0] if self._due else None

    def _run_due(self) -> int:
        now = self.clock.now()
        batch: list[tuple[str, str]] = []
        while self._due and self._due[0][0] <= now:
            when, _, controller, key = heapq.heappop(self._due)
            if self._when.get((controller, key)) == when:
                del self._when[controller, key]
                batch.append((controller, key))
        for slot in batch:
            self._reconcile(*slot)
        return len(batch)

    def _reconcile(self, name: str, key: str) -> None:
        slot = (name, key)
        try:
            again = self._controllers[name].reconcile(key)
        except Conflict:
            again = self._backoff(slot)
        except ApiError as error:
            self.errors += 1
            again = self._backoff(slot)
            log.warning("%s %s: %s; again in %.1f s", name, key, error, again)
        except Exception:
            self.errors += 1
            again = self._backoff(slot)
            log.exception("%s %s failed; again in %.1f s", name, key, again)
        else:
            self._failures.pop(slot, None)
        if again is not None:
            self.enqueue(name, key, again)

    def _backoff(self, slot: tuple[str, str]) -> float:
        failures = self._failures.get(slot, 0)
        self._failures[slot] = failures + 1
        return min(BACKOFF_LAST_S, BACKOFF_FIRST_S * 2**failures)

    def run_forever(self) -> None:
        """Runs until `stop`, sleeping while nothing is due."""
        while not self._stop.is_set():
            self._signal.clear()
            due = self.run_once()
            wait = 1.0 if due is None else min(1.0, max(0.0, due - self.clock.now()))
            self._signal.wait(wait)

    def run_until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Runs until `done()` or until the clock has moved by `timeout_s`; True if done.

        A virtual clock jumps to the next due key instead of waiting.
        """
        end = self.clock.now() + timeout_s
        while True:
            self._signal.clear()
            due = self.run_once()
            if done():
                return True
            if self.clock.now() >= end or self._stop.is_set():
                return False
            if isinstance(self.clock, VirtualClock):
                self.clock.advance_to(end if due is None else min(due, end))
            else:
                ahead = 0.05 if due is None else min(0.05, max(0.0, due - self.clock.now()))
                self._signal.wait(ahead)
                time.sleep(0)

    def stop(self) -> None:
        self._stop.set()
        self._signal.set()

    def close(self) -> None:
        self.stop()
        for informer in self._informers.values():
            informer.close()

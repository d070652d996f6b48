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
from collections.abc import Callable, Sequence
from typing import Protocol

from . import resources as kinds
from .ahead import Ahead, Then
from .clock import Clock, VirtualClock, steady_s
from .informer import Informer
from .port import ApiError, Conflict, Object, Port, Resource, Write

log = logging.getLogger(__name__)

BACKOFF_FIRST_S = 0.2
BACKOFF_LAST_S = 60.0
#: How often a loop that may not act looks whether it may.
STANDBY_S = 0.5


class Controller(Protocol):
    """Reconciles keys. Raising: again later, with back-off; a number: in so many seconds."""

    name: str

    def setup(self, runtime: Runtime) -> None:
        """Declare watches: `runtime.informer(RESOURCE).on_change(handler)`."""
        ...

    def reconcile(self, key: str) -> float | None: ...


class Runtime:
    """One loop for all controllers over one port.

    `max_age_s`: while the news of a kind that somebody needs are older, nothing is reconciled.
    `resync_s`: every cache is compared with a fresh list this often. `may_act`: False (a standby
    without the lease) keeps the caches up to date and lets keys wait. `writers`: how many writes of
    `post` may be under way while the loop goes on, and how many urgent ones beside them; (0, 0):
    the loop waits for all.
    """

    def __init__(
        self,
        port: Port,
        clock: Clock,
        *,
        max_age_s: float = float("inf"),
        resync_s: float = float("inf"),
        may_act: Callable[[], bool] = lambda: True,
        writers: tuple[int, int] = (0, 0),
    ) -> None:
        self.port = port
        self.clock = clock
        self.waiting = "starting"
        """Why nothing is reconciled just now; "" while the loop works."""
        self._max_age_s = max_age_s
        self._resync_s = resync_s
        self._may_act = may_act
        self._needed: set[Resource] = set()
        self._filled = False
        self.round_s = steady_s()
        """When the loop came round last, in steady seconds."""
        self._lock = threading.Lock()
        self._informers: dict[Resource, Informer] = {}
        self._controllers: dict[str, Controller] = {}
        self._due: list[tuple[float, int, str, str]] = []
        self._when: dict[tuple[str, str], float] = {}
        self._failures: dict[tuple[str, str], int] = {}
        self._order = itertools.count()
        self._signal = threading.Event()
        self._stop = threading.Event()
        self._ahead = [Ahead(n, self._signal.set) for n in writers if n]
        self.errors = 0

    def informer(self, resource: Resource) -> Informer:
        """The one cache of a kind. Safe from any thread."""
        with self._lock:
            found = self._informers.get(resource)
            if found is None:
                found = self._informers[resource] = Informer(resource, self._signal.set)
                if resource == kinds.CRD:
                    found.on_change(self._definition_changed)
            return found

    def need(self, *resources: Resource) -> None:
        """Kinds whose old news are no ground for any decision."""
        self._needed.update(resources)

    def disconnected(self) -> list[str]:
        """What keeps the caches of needed or served kinds from being up to date."""
        return [
            f"{i.resource.plural}: {i.problem or 'the first list is on its way'}"
            for i in sorted(self._all(), key=lambda i: i.resource.plural)
            if not i.connected and (i.resource in self._needed or not i.absent)
        ]

    @property
    def leads(self) -> bool:
        """Whether this process may act, and does not only stand by."""
        return self._may_act()

    def news_age_s(self) -> dict[str, float]:
        """Plural of each served kind -> seconds since the server last said anything about it."""
        return {i.resource.plural: i.age_s() for i in self._all() if not i.absent}

    def absent(self) -> list[Informer]:
        """Caches of kinds that the server does not serve, or not to us."""
        return [i for i in self._all() if i.absent]

    def _definition_changed(self, old: Object | None, new: Object | None) -> None:
        for informer in self._all():
            informer.look_again()

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

    def post(self, writes: Sequence[Write], then: Then, *, urgent: bool = False) -> None:
        """Sends writes that the loop need not wait for; `then` gets the answers, in the loop.

        urgent: somebody waits for what is written, so it does not queue behind statuses.
        """
        if self._ahead:
            self._ahead[-1 if urgent else 0].send(writes, then)
        else:
            then(self.port.batch(writes))

    def wake(self) -> None:
        self._signal.set()

    def run_once(self) -> float | None:
        """Pumps and reconciles until nothing is due; when something is next, or None."""
        while not self._stop.is_set():
            self.round_s = steady_s()
            changed = sum(self._pump(informer) for informer in self._all())
            changed += sum(lane.take() for lane in self._ahead)
            if not self._works():
                return self.clock.now() + STANDBY_S
            ran = self._run_due()
            if not changed and not ran:
                break
        again_s = min((i.again_s for i in self._all()), default=float("inf"))
        due_s = min(self._due[0][0] if self._due else float("inf"), again_s)
        return due_s if due_s != float("inf") else None

    def _pump(self, informer: Informer) -> int:
        try:
            return informer.pump(self.port, self.clock.now(), self._resync_s)
        except ApiError as error:
            if informer.absent and informer.resource not in self._needed:
                log.info("%s are not watched: %s", informer.resource.plural, error)
            else:
                self.errors += 1
                log.warning("watch of %s failed: %s", informer.resource.plural, error)
            return 0

    def _works(self) -> bool:
        """Whether keys may be reconciled now; `waiting` says why not."""
        waiting = self._why_waiting()
        if waiting != self.waiting:
            old_news = waiting and waiting == self.old_news()
            log.log(logging.WARNING if old_news else logging.INFO, waiting or "working")
            self.waiting = waiting
        return not waiting

    def _why_waiting(self) -> str:
        if not self._filled:
            empty = [i for i in self._all() if not i.settled]
            if empty:
                return f"filling the caches of {', '.join(i.resource.plural for i in empty)}"
            self._filled = True
        if not self._may_act():
            return "standing by: another holds the lease"
        return self.old_news()

    def old_news(self) -> str:
        """Which needed kind nothing was heard of for too long; "" if there is none."""
        if self._max_age_s == float("inf"):
            return ""
        for resource in self._needed:
            if self._informers[resource].age_s() > self._max_age_s:
                return f"nothing heard of {resource.plural} for {self._max_age_s:g} s: no decisions"
        return ""

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
        controller = self._controllers.get(name)
        if controller is None:
            return  # it runs in another process, which has watches of its own
        try:
            again = controller.reconcile(key)
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
            try:
                due = self.run_once()
            except Exception:  # a handler stumbled over an object: the others must go on
                self.errors += 1
                log.exception("the loop stumbled; again in a second")
                due = self.clock.now() + 1.0
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
        for lane in self._ahead:
            lane.close()
        for informer in self._informers.values():
            informer.close()

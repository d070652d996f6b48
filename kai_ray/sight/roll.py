"""Who is there: the gangs that are known, why they wait, and the stream of what happens to them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from kai_ray.cluster.port import Key
from kai_ray.cluster.runtime import Runtime
from kai_ray.sight.events import JobEvent, What
from kai_ray.sight.life import Life
from kai_ray.sight.placed import NOWHERE

log = logging.getLogger(__name__)

Subscriber = Callable[[JobEvent], None]


class Roll:
    """Changed by the loop; read by anybody. Keys of later work are those of `controller`."""

    def __init__(self, controller: str) -> None:
        self._controller = controller
        self._subscribers: tuple[Subscriber, ...] = ()
        self._lives: dict[Key, Life] = {}
        self._of_job: dict[str, dict[Key, Life]] = {}
        self._waiting: Counter[tuple[str, str]] = Counter()

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def now(self) -> float:
        return self._runtime.clock.now()

    def due(self, what: str, key: Key | None, after_s: float) -> None:
        """Has `reconcile` called with "what" or "what namespace/name" after a while."""
        text = f"{what} {key.namespace}/{key.name}" if key is not None else what
        self._runtime.enqueue(self._controller, text, after_s)

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

    def tell(
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

    # ------------------------------------------------------------------ turns of a life

    def put(self, life: Life) -> None:
        self._lives[life.key] = life
        self._of_job.setdefault(life.uid, {})[life.key] = life

    def drop(self, life: Life) -> None:
        self._lives.pop(life.key, None)
        of = self._of_job.get(life.uid, {})
        of.pop(life.key, None)
        if not of:
            self._of_job.pop(life.uid, None)

    def waits(
        self, life: Life, at_s: float, reason: str, message: str, replayed: bool = False
    ) -> None:
        life.message = message
        if reason == life.reason:
            return
        self.forget_wait(life)
        life.reason, life.since_s = reason, at_s
        if reason:
            self._waiting[life.queue, reason] += 1
            self.tell(life, at_s, "waits", reason, message, replayed=replayed)

    def moves(self, life: Life, queue: str) -> None:
        """To another queue."""
        if life.phase == "waiting" and life.reason:
            self._waiting[life.queue, life.reason] -= 1
            self._waiting[queue, life.reason] += 1

    def forget_wait(self, life: Life) -> None:
        if life.phase == "waiting" and life.reason:
            self._waiting[life.queue, life.reason] -= 1
            if self._waiting[life.queue, life.reason] <= 0:
                del self._waiting[life.queue, life.reason]
        life.reason = ""

    def end(
        self, life: Life, at_s: float, reason: str, message: str, replayed: bool = False
    ) -> None:
        others = [o for o in self.of_job(life.uid) if o is not life and o.phase != "ended"]
        self.forget_wait(life)
        life.phase, life.since_s, life.message, life.lost_s = "ended", at_s, message, None
        life.place, life.types = NOWHERE, ()
        what: What = "shrunk" if others else "ended"  # a part of the job is done
        self.tell(life, at_s, what, reason, message, replayed=replayed)

"""What happened to jobs lately, for a scheduler that keeps no history file."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kai_ray.sight.events import JobEvent
    from kai_ray.sight.sight import Sight

MOST = 20_000


class Lately:
    """A ring of the last events of all jobs. Told on the loop's thread, read from any."""

    def __init__(self, sight: Sight | None) -> None:
        self._ring: deque[JobEvent] = deque(maxlen=MOST)
        self._lock = threading.Lock()
        self._listeners: tuple[deque[JobEvent], ...] = ()
        if sight is not None:
            sight.subscribe(self._take)

    def _take(self, event: JobEvent) -> None:
        with self._lock:
            self._ring.append(event)
        for listener in self._listeners:
            listener.append(event)

    def listen(self, queue: deque[JobEvent]) -> None:
        """Events go there as well from now on; a bounded deque loses the oldest."""
        self._listeners = (*self._listeners, queue)

    def leave(self, queue: deque[JobEvent]) -> None:
        self._listeners = tuple(q for q in self._listeners if q is not queue)

    def of(self, uids: set[str]) -> list[JobEvent]:
        """The last events of workloads, oldest first."""
        with self._lock:
            return [event for event in self._ring if event.uid in uids]

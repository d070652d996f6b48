"""The jobs of a namespace as they stand, read once for all who ask at about the same time."""

from __future__ import annotations

import threading
import time

from kai_ray.cluster.port import Port
from kai_ray.sdk.pace import Pace
from kai_ray.sight.jobs import listing

#: Between two looks of one who waits: so many times what a look takes, within these bounds.
LEAST_PAUSE_S, LARGEST_PAUSE_S, PAUSE_PER_LOOK = 0.3, 10.0, 5.0


class Rows:
    """Safe from any thread. A hundred jobs that are waited for cost one list at a time."""

    def __init__(self, port: Port, pace: Pace) -> None:
        self._port, self._pace = port, pace
        self._lock = threading.Lock()
        self._kept: dict[str | None, tuple[float, list[listing.Job]]] = {}
        self._took_s = 0.0

    def read(self, namespace: str | None) -> list[listing.Job]:
        """The jobs of a namespace, None for all."""
        with self._lock:
            kept = self._kept.get(namespace)
            if kept is not None and self._pace.now() - kept[0] < self._pace.fresh_s:
                return kept[1]
            began = time.perf_counter()
            rows = listing.read(self._port, namespace)
            self._took_s = time.perf_counter() - began
            self._kept[namespace] = (self._pace.now(), rows)
            return rows

    def forget(self) -> None:
        """After a write of one's own: what was read is not true any more."""
        with self._lock:
            self._kept.clear()

    @property
    def pause_s(self) -> float:
        """How long to wait before the next look, so that waiting is a small load on the server."""
        return min(LARGEST_PAUSE_S, max(LEAST_PAUSE_S, PAUSE_PER_LOOK * self._took_s))

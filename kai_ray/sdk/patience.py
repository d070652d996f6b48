"""Looking at jobs while the API server comes and goes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kai_ray.sdk.errors import Unreachable

if TYPE_CHECKING:
    from kai_ray.sdk.job import Job
    from kai_ray.sdk.looks import Look

#: A server that does not answer for so long is an error, also to one who has time.
OUTAGE_S = 300.0


class Patience:
    """A restart of the API server must not end a pipeline that waits for hours."""

    def __init__(self) -> None:
        self._since: float | None = None

    def look(self, job: Job) -> Look | None:
        """None while the server does not answer. Raises Unreachable after `OUTAGE_S` of that."""
        try:
            found = job.look()
        except Unreachable:
            now = job.client.pace.now()
            self._since = now if self._since is None else self._since
            if now - self._since >= OUTAGE_S:
                raise
            return None
        self._since = None
        return found


def seconds(timeout: float | timedelta | None) -> float | None:
    """A time-out in seconds. Raises TypeError for what is none."""
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if timeout is None or (isinstance(timeout, int | float) and not isinstance(timeout, bool)):
        return timeout
    raise TypeError(f"timeout={timeout!r} is no number of seconds")

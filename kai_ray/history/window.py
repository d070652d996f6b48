"""Over which past usage counts, and how strongly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from kai_ray.api.cron import Schedule

WEEK_S = 7 * 24 * 3600.0
#: Time buckets that a window is cut into: finer ones cost memory and change no decision.
BUCKETS = 1024
FINEST_S = 10.0


class WindowType(Enum):
    SLIDING = "sliding"
    """The last `window_s`, at every moment."""
    TUMBLING = "tumbling"
    """Since the last of the moments `start_s + n * window_s`: everybody begins anew together."""
    CRON = "cron"
    """The same, at the moments that `schedule` names (in UTC)."""


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """`half_life_s` None: all of the window counts alike. Of a cron window, `window_s` is only how
    far back its record reaches at most."""

    window_s: float = WEEK_S
    half_life_s: float | None = None
    window: WindowType = WindowType.SLIDING
    start_s: float = 0.0
    schedule: Schedule | None = None  # of a cron window
    interval_s: float = 60.0  # between two looks at what queues hold

    @property
    def bucket_s(self) -> int:
        """Whole seconds, so that a bucket has the same name after every restart."""
        return max(int(FINEST_S), math.ceil(self.window_s / BUCKETS))

    def begin_s(self, now_s: float) -> float:
        """What happened before this counts no more."""
        if self.window is WindowType.SLIDING:
            return now_s - self.window_s
        if self.schedule is not None:
            begin = self.schedule.latest(now_s, UTC)
            return max(begin or 0.0, now_s - self.window_s)
        return now_s - math.fmod(now_s - self.start_s, self.window_s)

    def weights(self, bucket_s: NDArray[np.float64], now_s: float) -> NDArray[np.float64]:
        """How much usage of the buckets that begin at these times counts now, 0 to 1.

        A bucket that lies ahead (the clock was set back) counts as if it were now.
        """
        begin = self.begin_s(now_s)
        inside = bucket_s + self.bucket_s > begin
        if self.half_life_s is None:
            return inside.astype(np.float64)
        age = np.maximum(now_s - (bucket_s + self.bucket_s / 2), 0.0)
        return np.where(inside, 0.5 ** (age / self.half_life_s), 0.0)

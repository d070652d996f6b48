"""Where the ticks of an axis stand, and what is written beside them."""

from __future__ import annotations

import math
from datetime import UTC, datetime

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_TIME_STEPS = (
    *(s for s in (1.0, 5.0, 15.0)),
    *(m * _MINUTE for m in (1, 2, 5, 10, 15, 30)),
    *(h * _HOUR for h in (1, 2, 3, 6, 12)),
    *(d * _DAY for d in (1, 2, 7, 14, 28, 91, 182, 364)),
)


def value_ticks(highest: float, most: int = 5) -> list[float]:
    """0 and further round numbers, the last not below `highest`."""
    if not math.isfinite(highest) or highest <= 0:
        return [0.0, 1.0]
    rough = highest / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough * (1 - 1e-9))
    count = math.ceil(highest / step - 1e-9)
    return [round(i * step, 12) for i in range(count + 1)]


def time_ticks(since_s: float, until_s: float, most: int = 7) -> list[tuple[float, str]]:
    """Round moments in UTC and their texts."""
    length = until_s - since_s
    if not math.isfinite(length) or length <= 0:
        return [(since_s, _clock(since_s, 1.0))]
    step = next((s for s in _TIME_STEPS if length / s <= most), length / most)
    first = math.ceil(since_s / step) * step
    count = int((until_s - first) / step + 1e-9) + 1
    return [(t, _clock(t, step)) for t in (first + i * step for i in range(count)) if t <= until_s]


def _clock(at_s: float, step_s: float) -> str:
    moment = datetime.fromtimestamp(at_s, UTC)
    if step_s >= _DAY:
        return moment.strftime("%d %b")
    if step_s < _MINUTE:
        return moment.strftime("%H:%M:%S")
    if at_s % _DAY == 0:
        return moment.strftime("%d %b")
    return moment.strftime("%H:%M")

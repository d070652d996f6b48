"""The time that a report is about, as people write it."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from kai_ray.api.durations import parse_duration

_DAYS = re.compile(r"(\d{1,6}(?:\.\d+)?)(d|w)")
_LENGTHS = {"d": 86_400.0, "w": 604_800.0}


class WindowError(ValueError):
    """A time that cannot be used; the text says which and how to write it."""


def window(since: str, until: str, now_s: float) -> tuple[float, float]:
    """From and to, seconds since 1970. "7d": so long ago; "": now. Raises WindowError."""
    first, last = _moment(since, now_s, "since"), _moment(until, now_s, "until")
    if first >= last:
        raise WindowError(f"since {since!r} is not before until {until or 'now'!r}")
    return first, last


def _moment(text: str, now_s: float, name: str) -> float:
    text = text.strip()
    if not text:
        return now_s
    days = _DAYS.fullmatch(text)
    length = float(days[1]) * _LENGTHS[days[2]] if days else parse_duration(text)
    if length is not None and length >= 0:
        return max(0.0, now_s - length)
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        mend = "write 7d, 36h, 2w, 2026-01-31 or 2026-01-31T12:00:00Z"
        raise WindowError(f"{name} {text[:40]!r} is no time: {mend}") from None

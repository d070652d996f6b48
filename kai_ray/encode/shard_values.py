"""Values of a SchedulingShard's spec: durations, times, numbers. All raise Malformed."""

from __future__ import annotations

import re
from typing import Any

from kai_ray.api.durations import parse_duration

from .pod_rows import seconds
from .problems import Malformed

_SPAN = re.compile(r"(\d+)([smhdwy])")
_SPAN_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
_LONGEST_S = 10 * 366 * 86_400.0
_TRUE, _FALSE = ("true", "1", "t"), ("false", "0", "f")


def duration(raw: Any, field: str, least: float | None) -> float:
    """A Go duration, or Prometheus' own form with days and weeks ("1w", "7d12h")."""
    found = parse_duration(raw) if isinstance(raw, str) else None
    if found is None and isinstance(raw, str) and raw:
        parts = _SPAN.findall(raw)
        if "".join(n + u for n, u in parts) == raw:
            found = float(sum(int(n) * _SPAN_S[u] for n, u in parts))
    if found is None or found > _LONGEST_S:
        raise Malformed(field, f"{raw!r} is not a duration such as 24h or 1w, of at most 10 years")
    if least is not None and found < least:
        raise Malformed(field, f"{raw!r} is too short: the least is {least:g}s")
    return found


def moment(raw: Any, field: str) -> float:
    try:
        return seconds(raw)
    except (Malformed, TypeError):
        mend = f"{raw!r} is not a time: write it as 2026-01-31T12:00:00Z (RFC 3339)"
        raise Malformed(field, mend) from None


def mapping(raw: Any, field: str) -> dict[str, Any]:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise Malformed(field, "must be an object")
    return raw


def number(raw: Any, field: str, least: float, most: float) -> float:
    try:
        value = float(raw)
    except (TypeError, ValueError):
        value = float("nan")
    if isinstance(raw, bool) or not least <= value <= most:
        raise Malformed(field, f"{raw!r} is not a number from {least:g} to {most:g}")
    return value


def integer(raw: Any, field: str, least: int) -> int:
    try:
        value = int(str(raw))
    except ValueError:
        value = least - 1
    if isinstance(raw, bool) or value < least:
        raise Malformed(field, f"{raw!r} is not a whole number from {least}")
    return value


def truth(raw: Any, field: str) -> bool:
    """true or false, also as the text that plugin arguments are."""
    said = str(raw).lower()
    if said not in (*_TRUE, *_FALSE):
        raise Malformed(field, f"{raw!r} is neither true nor false")
    return said in _TRUE

"""Go durations ("1h30m", "90s", "-1s"), as KAI's annotations and fields write them."""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "μs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
#: Go keeps durations in 64 bits of nanoseconds.
_LARGEST_S = Decimal(2**63) / 10**9


def parse_duration(text: str) -> float | None:
    """Seconds, or None if `text` is not a Go duration ("0" alone may go without a unit)."""
    body = text[1:] if text[:1] in "+-" else text
    sign = -1 if text.startswith("-") else 1
    if body == "0":
        return 0.0
    total, at = Decimal(0), 0
    while at < len(body):
        part = _PART.match(body, at)
        if part is None:
            return None
        total += Decimal(part[1]) * _UNITS[part[2]]
        at = part.end()
    if not body or total >= _LARGEST_S:
        return None
    return float(sign * total)


def spoken(seconds: float) -> str:
    """A length of time for people, in at most two units: "45 s", "12 min", "2 h 5 min", "3 d"."""
    s = max(0, round(seconds))
    for unit, size, smaller, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60)):
        if s >= size:
            rest = s % size // part
            return f"{s // size} {unit} {rest} {smaller}" if rest else f"{s // size} {unit}"
    return f"{s // 60} min" if s >= 120 else f"{s} s"

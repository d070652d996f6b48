"""Numbers and times as reports write them."""

from __future__ import annotations

from datetime import UTC, datetime


def hours(value: float | None) -> str:
    """GPU hours: 3 digits that matter, at most one behind the point from 100 on."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if abs(value) < 0.01:
        return "<0.01"
    digits = 2 if abs(value) < 10 else 1
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"


def money(value: float | None, currency: str = "") -> str:
    if value is None:
        return "-"
    return f"{value:,.2f} {currency}".rstrip()


def percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.0f} %"


def moment(at_s: float | None) -> str:
    """For people: UTC to the second."""
    return "" if at_s is None else datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def days(since_s: float, until_s: float) -> str:
    """A window: "2026-11-13 10:00 to 2026-11-20 10:00 UTC"."""
    form = "%Y-%m-%d %H:%M"
    first, last = (datetime.fromtimestamp(t, UTC).strftime(form) for t in (since_s, until_s))
    return f"{first} to {last} UTC"

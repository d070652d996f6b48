"""Cron schedules: five fields, names of months and days, and the @ words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
#: 29 February on a given weekday comes back within this many years.
_FARTHEST_YEARS = 29


@dataclass(frozen=True, slots=True)
class Schedule:
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def after(self, epoch_s: float, zone: tzinfo) -> float | None:
        """The first matching minute after `epoch_s`; None if the schedule never matches."""
        start = datetime.fromtimestamp(epoch_s, zone).replace(second=0, microsecond=0)
        start += timedelta(minutes=1)
        day = start.date()
        last = day.replace(year=day.year + _FARTHEST_YEARS, day=min(day.day, 28))
        while day <= last:
            if day.month in self.months and self._on(day.day, day.isoweekday() % 7):
                for hour in self.hours:
                    for minute in self.minutes:
                        when = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
                        if when.timestamp() > epoch_s and when >= start:
                            return when.timestamp()
            day += timedelta(days=1)
        return None

    def latest(self, epoch_s: float, zone: tzinfo) -> float | None:
        """The last matching minute up to `epoch_s`; None if the schedule never matched."""
        day = datetime.fromtimestamp(epoch_s, zone).date()
        first = day.replace(year=day.year - _FARTHEST_YEARS, day=min(day.day, 28))
        while day >= first:
            if day.month in self.months and self._on(day.day, day.isoweekday() % 7):
                for hour in reversed(self.hours):
                    for minute in reversed(self.minutes):
                        when = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
                        if when.timestamp() <= epoch_s:
                            return when.timestamp()
            day -= timedelta(days=1)
        return None

    def _on(self, day: int, weekday: int) -> bool:
        """As cron has it: with both day fields given, either may match."""
        in_month, in_week = day in self.days, weekday in self.weekdays
        if self.any_day or self.any_weekday:
            return in_month and in_week
        return in_month or in_week


def parse(text: str) -> Schedule:
    """Raises ValueError that names the field."""
    parts = _WORDS.get(text.strip().lower(), text).split()
    if len(parts) != 5:
        raise ValueError(
            f"{text!r}: a schedule has five fields, such as '0 * * * *', or is @hourly"
        )
    values = [_values(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = values
    return Schedule(
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        frozenset(days),
        frozenset(months),
        frozenset(d % 7 for d in weekdays),
        any_day=parts[2].startswith(("*", "?")),
        any_weekday=parts[4].startswith(("*", "?")),
    )


def _values(text: str, name: str, low: int, high: int, names: tuple[str, ...]) -> set[int]:
    found: set[int] = set()
    for item in text.lower().split(","):
        span, _, step_text = item.partition("/")
        if span in ("*", "?"):
            first, last = low, high
        else:
            first_text, dash, last_text = span.partition("-")
            first = _number(first_text, name, low, names)
            last = _number(last_text, name, low, names) if dash else first
            if step_text and not dash:
                last = high
        step = int(step_text) if step_text.isdigit() else 0 if step_text else 1
        if step < 1 or not low <= first <= last <= high:
            raise ValueError(
                f"{item!r} is no {name}: use {low} to {high}, a list, a range or a step"
            )
        found.update(range(first, last + 1, step))
    return found


def _number(text: str, name: str, low: int, names: tuple[str, ...]) -> int:
    if text in names:
        return names.index(text) + (1 if low == 1 else 0)
    if not text.isdigit():
        raise ValueError(f"{text!r} is no {name}")
    return int(text)

"""What a queue says about jobs that do not use their GPUs, and about the hours in which they may.

    kai.scheduler/idle-jobs: "train: below 5% for 30m, suspend after 10m, enforce; below 2% for 2h"
    kai.scheduler/protected-hours: "Mon-Fri 08:00-19:00 Europe/Berlin; Sat 10:00-14:00"

Rules are separated by `;`. One begins with the workload types that it is for (`build+inference:`);
without any it is for all, and of several the first that fits a job holds. What follows the warning
is `suspend after` or `evict after` a time of grace, or nothing; `enforce` makes it happen, without
it the rule only says what it would do. `off` takes back what the queue above says.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from kai_ray.api.durations import parse_duration

from .problems import Malformed
from .traits import SYNONYMS, TYPES

Action = Literal["warn", "suspend", "evict"]
_WORD = "|".join((*TYPES, *SYNONYMS))
_PERCENT = r"(100|[0-9]{1,2}(?:\.[0-9]{1,3})?)"
_TIME = r"((?:[0-9]+(?:\.[0-9]*)?(?:ms|s|m|h))+)"
_RULE = re.compile(
    rf" *(?:(?P<types>(?:{_WORD})(?: *\+ *(?:{_WORD}))*) *: *)?"
    rf"below +(?P<below>{_PERCENT}) *% +for +(?P<for>{_TIME})"
    rf"(?: *, *(?:warn|(?P<action>suspend|evict) +after +(?P<after>{_TIME})))?"
    r"(?: *, *(?P<mode>enforce|dry-run))? *"
)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = "|".join(_DAYS)
_HOURS = re.compile(
    rf" *(?:(?P<days>(?:{_DAY})(?:-(?:{_DAY}))?(?:,(?:{_DAY})(?:-(?:{_DAY}))?)*) +)?"
    r"(?P<from>[0-2][0-9]:[0-5][0-9])-(?P<to>[0-2][0-9]:[0-5][0-9])"
    r"(?: +(?P<zone>[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*))? *"
)
_LONGEST = 1024
_MOST = 32
_DAY_MINUTES = 24 * 60


class IdleRule(NamedTuple):
    """Times in seconds; `below` is a part of the GPUs that a job holds."""

    types: tuple[str, ...]  # workload types; () = all
    below: float
    for_s: float
    action: Action = "warn"
    after_s: float = 0.0
    enforce: bool = False

    def fits(self, workload_type: str) -> bool:
        return not self.types or workload_type in self.types

    def __str__(self) -> str:
        return f"below {self.below * 100:g} % for {spoken(self.for_s)}"


class Span(NamedTuple):
    """Hours of some days; one that ends before it begins lasts into the next day."""

    days: tuple[int, ...]  # 0 = Monday
    start: int  # minutes after midnight
    end: int
    zone: str

    def end_s(self, now_s: float) -> float | None:
        """When the span that `now_s` lies in ends; None outside of it."""
        local = datetime.fromtimestamp(now_s, _zone(self.zone))
        length = (self.end - self.start) % _DAY_MINUTES or _DAY_MINUTES
        for back in (0, 1):
            day = local.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=back)
            if day.weekday() not in self.days:
                continue
            # By the clock on the wall, whatever a change of summer time does to the day's length.
            start = day + timedelta(minutes=self.start)
            end = start + timedelta(minutes=length)
            if start.timestamp() <= now_s < end.timestamp():
                return end.timestamp()
        return None


def protected_until_s(spans: tuple[Span, ...], now_s: float) -> float | None:
    """When the protection that holds now ends, later spans that join on included; None: none."""
    found: float | None = None
    at = now_s
    for _ in range(_MOST):
        ends = [end for span in spans if (end := span.end_s(at)) is not None]
        if not ends:
            break
        found = at = max(ends)
        if found - now_s > 7 * 86_400:  # around the clock, every day
            break
    return found


def rules(raw: Any, field: str) -> tuple[IdleRule, ...]:
    """Raises Malformed."""
    mend = "write for example: below 5% for 30m, suspend after 10m, enforce"
    if not isinstance(raw, str) or not raw.strip() or len(raw) > _LONGEST:
        raise Malformed(field, f"{_shown(raw)} is no rule for idle jobs: {mend}, or off")
    if raw.strip() == "off":
        return ()
    found: list[IdleRule] = []
    for part in raw.split(";"):
        match = _RULE.fullmatch(part)
        if match is None:
            raise Malformed(field, f"{_shown(part)} is no rule for idle jobs: {mend}")
        found.append(_rule(match))
    return tuple(found)


def _rule(match: re.Match[str]) -> IdleRule:
    types = [w.strip() for w in (match["types"] or "").split("+") if w.strip()]
    return IdleRule(
        tuple(sorted({SYNONYMS.get(word, word) for word in types})),
        float(match["below"]) / 100,
        parse_duration(match["for"]) or 0.0,
        match["action"] or "warn",  # pyright: ignore[reportArgumentType]
        parse_duration(match["after"] or "0") or 0.0,
        match["mode"] == "enforce",
    )


def hours(raw: Any, field: str) -> tuple[Span, ...]:
    """Raises Malformed."""
    mend = "write for example: Mon-Fri 08:00-19:00 Europe/Berlin (UTC without a zone)"
    if not isinstance(raw, str) or len(raw) > _LONGEST:
        raise Malformed(field, f"{_shown(raw)} are no hours: {mend}, or off")
    if raw.strip() == "off":
        return ()
    parts = raw.split(";")
    if len(parts) > _MOST:
        raise Malformed(field, f"{len(parts)} spans of hours: at most {_MOST} are allowed")
    found: list[Span] = []
    for part in parts:
        match = _HOURS.fullmatch(part)
        if match is None or max(match["from"][:2], match["to"][:2]) > "23":
            raise Malformed(field, f"{_shown(part)} are no hours: {mend}")
        zone = match["zone"] or "UTC"
        try:
            _zone(zone)
        except (OSError, ValueError, KeyError):  # a name that is not known, or none
            known = f"{zone!r} is no time zone that is known here"
            raise Malformed(field, f"{known}: write one such as Europe/Berlin, or UTC") from None
        found.append(
            Span(_days(match["days"]), _minutes(match["from"]), _minutes(match["to"]), zone)
        )
    return tuple(found)


def _days(text: str | None) -> tuple[int, ...]:
    found: set[int] = set()
    for part in (text or "Mon-Sun").split(","):
        first, _, last = part.partition("-")
        start, end = _DAYS.index(first), _DAYS.index(last or first)
        found.update((start + i) % 7 for i in range((end - start) % 7 + 1))
    return tuple(sorted(found))


def _minutes(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])


def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)


def spoken(seconds: float) -> str:
    """ "30 minutes": a time as people say it, in its largest whole unit."""
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            count = int(seconds // size)
            return f"{count} {unit}" + ("s" if count > 1 else "")
    return f"{seconds:g} seconds"


def _shown(value: Any) -> str:
    return repr(value)[:80]

"""What queues say of idle jobs and of protected hours, and what of it makes no sense."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from kai_ray.admission.policies import policies
from kai_ray.api import labels as L
from kai_ray.encode import queue_policy
from kai_ray.encode.idle_rules import IdleRule, hours, protected_until_s, rules
from kai_ray.encode.problems import Malformed

_BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("below 5% for 30m", [IdleRule((), 0.05, 1800)]),
        ("off", []),
        (
            "train: below 5% for 30m, suspend after 10m, enforce; below 2.5 % for 1h30m, warn",
            [
                IdleRule(("train",), 0.05, 1800, "suspend", 600, True),
                IdleRule((), 0.025, 5400),
            ],
        ),
        (
            "interactive + inference : below 1% for 2h , evict after 1m , dry-run",
            [IdleRule(("build", "inference"), 0.01, 7200, "evict", 60, False)],
        ),
    ],
)
def test_rules_are_read(text: str, found: list[IdleRule]) -> None:
    assert list(rules(text, "f")) == found
    assert _refusals({L.IDLE_JOBS: text}) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "below 5 for 30m",
        "below 101% for 30m",
        "below 5% for ever",
        "magic: below 5% for 30m",
        "below 5% for 30m, delete after 5m",
        "below 5% for 30m; ",
        "suspend after 10m",
        "below -1% for 3m",
    ],
)
def test_rules_that_make_no_sense_are_refused_with_the_mend(text: str) -> None:
    with pytest.raises(Malformed, match="no rule for idle jobs"):
        rules(text, "f")
    assert _refusals({L.IDLE_JOBS: text})


def _refusals(annotations: dict[str, str]) -> list[Malformed]:
    found = queue_policy.problems(annotations)
    assert bool(found) is not _cel_admits(annotations)
    return found


def _cel_admits(annotations: dict[str, str]) -> bool:
    """The same by the policy in CEL: by its pattern alone, as the API server matches it."""
    import re

    from kai_ray.admission import policy_queues

    ones = policy_queues._ONE
    return all(re.search(ones[key][0], text) for key, text in annotations.items())


def test_the_policies_name_both_annotations() -> None:
    said = str(policies(("kai-scheduler",)))
    assert L.IDLE_JOBS in said and L.PROTECTED_HOURS in said


def _at(text: str, zone: ZoneInfo = _BERLIN) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


@pytest.mark.parametrize(
    ("text", "now", "until"),
    [
        # 2026-03-23 is a Monday
        ("Mon-Fri 08:00-19:00 Europe/Berlin", "2026-03-23T12:00", "2026-03-23T19:00"),
        ("Mon-Fri 08:00-19:00 Europe/Berlin", "2026-03-23T19:00", None),
        ("Mon-Fri 08:00-19:00 Europe/Berlin", "2026-03-22T12:00", None),
        ("22:00-06:00 Europe/Berlin", "2026-03-23T23:00", "2026-03-24T06:00"),
        ("22:00-06:00 Europe/Berlin", "2026-03-24T05:59", "2026-03-24T06:00"),
        ("Sun 22:00-06:00 Europe/Berlin", "2026-03-24T05:00", None),
        # into the night in which the clocks go forward
        ("Sat 20:00-08:00 Europe/Berlin", "2026-03-29T07:30", "2026-03-29T08:00"),
        # spans that join on
        ("Mon 08:00-12:00 Europe/Berlin; 12:00-13:00 Europe/Berlin", "2026-03-23T09:00",
         "2026-03-23T13:00"),
        ("Fri-Mon 08:00-19:00 Europe/Berlin", "2026-03-22T12:00", "2026-03-22T19:00"),
        ("off", "2026-03-23T12:00", None),
    ],
)  # fmt: skip
def test_protected_hours(text: str, now: str, until: str | None) -> None:
    found = protected_until_s(hours(text, "f"), _at(now))
    assert found == (_at(until) if until else None)
    assert _refusals({L.PROTECTED_HOURS: text}) == []


def test_protection_around_the_clock_ends_never_and_is_found_quickly() -> None:
    found = protected_until_s(hours("00:00-00:00", "f"), _at("2026-03-23T12:00"))
    assert found is not None and found > _at("2026-03-30T00:00")


@pytest.mark.parametrize(
    "text", ["", "8-19", "Mon-Fri 08:00-24:01", "Mo 08:00-09:00", "25:00-26:00"]
)
def test_hours_that_make_no_sense_are_refused_with_the_mend(text: str) -> None:
    with pytest.raises(Malformed, match="are no hours"):
        hours(text, "f")
    assert _refusals({L.PROTECTED_HOURS: text})


def test_a_time_zone_that_nobody_knows_is_named() -> None:
    with pytest.raises(Malformed, match="'Mars/Olympus' is no time zone"):
        hours("08:00-09:00 Mars/Olympus", "f")


def test_a_child_queue_inherits_the_rule_or_takes_it_back() -> None:
    root = queue_policy.read({L.IDLE_JOBS: "below 5% for 30m"})
    assert queue_policy.SILENT.below(root).idle == root.idle
    assert queue_policy.read({L.IDLE_JOBS: "off"}).below(root).idle == ()

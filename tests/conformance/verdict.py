"""How one recorded case came out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Case = dict[str, Any]


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one case; `why` names the differences, or the reason for skipping."""

    case: str
    outcome: Outcome
    why: tuple[str, ...] = ()
    no_change: bool = False  # the scheduler is expected to do nothing


def judged(case: Case, differences: list[str]) -> Verdict:
    """Passed if there are no differences."""
    outcome = Outcome.FAILED if differences else Outcome.PASSED
    return Verdict(case["id"], outcome, tuple(differences), is_no_change(case))


def skipped(case: Case, why: str) -> Verdict:
    return Verdict(case["id"], Outcome.SKIPPED, (why,), is_no_change(case))


def is_no_change(case: Case) -> bool:
    return "no_change" in case.get("features", ())

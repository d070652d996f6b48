"""Judges every recorded case of a folder."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module, util
from pathlib import Path

from tests.conformance import rounds, scope, units
from tests.conformance.policies import decide
from tests.conformance.verdict import Case, Outcome, Verdict, is_no_change, judged, skipped

#: Judges one podgrouper vector: "passed", "failed" or "differs by rule N", and what differs.
PodgrouperCheck = Callable[[Case], tuple[str, str]]
_DIFFERS = "differs by rule"


@dataclass(frozen=True, slots=True)
class FileReport:
    """The verdicts of one file."""

    name: str
    verdicts: tuple[Verdict, ...]

    def count(self, outcome: Outcome) -> int:
        return sum(v.outcome is outcome for v in self.verdicts)

    @property
    def line(self) -> str:
        """`name  passed/total (of which not no_change: passed/total)`; skipped cases apart."""
        tried = [v for v in self.verdicts if v.outcome is not Outcome.SKIPPED]
        changing = [v for v in tried if not v.no_change]
        text = (
            f"{self.name}  {_passed(tried)}/{len(tried)} "
            f"(of which not no_change: {_passed(changing)}/{len(changing)})"
        )
        for why, number in sorted(self._reasons().items()):
            text += f", {number} {why}"
        return text

    def _reasons(self) -> Counter[str]:
        """Skipped cases: those that differ by a rule of ours by that rule, the rest together."""
        left_out = [v for v in self.verdicts if v.outcome is Outcome.SKIPPED]
        return Counter(v.why[0] if v.why[0].startswith(_DIFFERS) else "skipped" for v in left_out)


def _passed(verdicts: list[Verdict]) -> int:
    return sum(v.outcome is Outcome.PASSED for v in verdicts)


def run_folder(folder: Path, only: str = "") -> Iterator[FileReport]:
    """Judges each `*.jsonl` file of the folder whose name contains `only`, by name; or one file.

    Raises FileNotFoundError where the folder does not exist or holds no such file.
    """
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: no such folder")
    every = [folder] if folder.is_file() else folder.glob("*.jsonl")
    files = sorted(path for path in every if only in path.name)
    if not files:
        named = f" with {only!r} in its name" if only else ""
        raise FileNotFoundError(f"{folder}: no *.jsonl file{named} in there")
    for path in files:
        yield FileReport(path.name, tuple(judge(case) for case in read(path)))


def read(path: Path) -> Iterator[Case]:
    """The cases of a file, one a line. Raises ValueError naming the line that is no case."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                case = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{path}:{number}: no JSON: {error}") from error
            if not isinstance(case, dict) or "id" not in case:
                raise ValueError(f"{path}:{number}: not a case: an object with an id is needed")
            yield case


def judge(case: Case) -> Verdict:
    """The verdict on one case. A crash of ours is a failure, with its last lines."""
    try:
        return _judge(case)
    except Exception:
        last = traceback.format_exc(limit=-3).strip().splitlines()
        why = ("crashed: " + " | ".join(line.strip() for line in last),)
        return Verdict(case["id"], Outcome.FAILED, why, is_no_change(case))


def _judge(case: Case) -> Verdict:
    if "cluster" in case:
        why = scope.why_not(case)
        return skipped(case, why) if why else judged(case, rounds.run(case, decide(case)))
    function = case.get("function", "podgrouper")
    if function in units.CHECKS:
        return judged(case, units.CHECKS[function](case))
    if function == "podgrouper":
        return _judge_podgrouper(case)
    return skipped(case, f"needs {function}")


def _judge_podgrouper(case: Case) -> Verdict:
    check = _podgrouper_check()
    if check is None:
        return skipped(case, "needs the podgrouper")
    outcome, detail = check(case)
    if outcome.startswith(_DIFFERS) or outcome == "skipped":
        return Verdict(case["id"], Outcome.SKIPPED, (outcome, detail))
    return judged(case, [] if outcome == "passed" else [detail or outcome])


def _podgrouper_check() -> PodgrouperCheck | None:
    name = "tests.conformance.podgrouper"
    return import_module(name).check if util.find_spec(name) else None

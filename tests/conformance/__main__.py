"""`python -m tests.conformance FOLDER [--only TEXT] [--json FILE]`: the core on recorded cases.

A line per file, the failing cases with their differences, and the sums. Exit 1 if a case failed,
2 if the folder cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.conformance.runner import FileReport, run_folder
from tests.conformance.verdict import Outcome

#: How many differences of a failing case are printed.
_SHOWN = 5


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of recorded cases (*.jsonl)")
    parser.add_argument("--only", default="", metavar="TEXT", help="part of a file's name")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write each verdict to FILE")
    options = parser.parse_args(arguments)
    reports: list[FileReport] = []
    try:
        for report in run_folder(options.folder, options.only):
            reports.append(report)
            print(report.line, flush=True)
    except (OSError, ValueError) as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    _print_failures(reports)
    if options.json:
        options.json.write_text(json.dumps(_as_json(reports), indent=1) + "\n", encoding="utf-8")
    sums = {outcome: sum(r.count(outcome) for r in reports) for outcome in Outcome}
    print(", ".join(f"{number} {outcome}" for outcome, number in sums.items()))
    return 1 if sums[Outcome.FAILED] else 0


def _print_failures(reports: list[FileReport]) -> None:
    for report in reports:
        for verdict in report.verdicts:
            if verdict.outcome is Outcome.FAILED:
                print(f"FAILED {report.name} {verdict.case}")
                for why in verdict.why[:_SHOWN]:
                    print(f"    {why}")
                if len(verdict.why) > _SHOWN:
                    print(f"    and {len(verdict.why) - _SHOWN} more")


def _as_json(reports: list[FileReport]) -> list[dict[str, object]]:
    return [
        {
            "file": report.name,
            "case": verdict.case,
            "outcome": verdict.outcome.value,
            "why": list(verdict.why),
            "no_change": verdict.no_change,
        }
        for report in reports
        for verdict in report.verdicts
    ]


if __name__ == "__main__":
    sys.exit(main())

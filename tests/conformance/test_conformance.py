"""The recorded cases as a test: none fails, and no fewer are judged than are in scope."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.__main__ import main
from tests.conformance.runner import judge, run_folder
from tests.conformance.verdict import Case, Outcome, Verdict
from tests.shared import shared_dir

#: Cases in scope among those recorded with the project, per kind of file.
_LEAST_SCHEDULER = 301
_LEAST_CHANGING = 217
_LEAST_UNITS = 392


@pytest.fixture(scope="module")
def verdicts() -> dict[str, list[Verdict]]:
    reports = run_folder(shared_dir("scenarios"))
    return {report.name: list(report.verdicts) for report in reports}


def test_no_recorded_case_fails(verdicts: dict[str, list[Verdict]]) -> None:
    failed = [
        f"{name} {verdict.case}: {'; '.join(verdict.why[:3])}"
        for name, all_of in verdicts.items()
        for verdict in all_of
        if verdict.outcome is Outcome.FAILED
    ]
    assert not failed, "\n".join(failed)


def test_all_scheduler_cases_in_scope_are_judged(verdicts: dict[str, list[Verdict]]) -> None:
    judged = [
        verdict
        for name, all_of in verdicts.items()
        for verdict in all_of
        if name.startswith("scheduler__") and verdict.outcome is Outcome.PASSED
    ]
    assert len(judged) >= _LEAST_SCHEDULER
    assert sum(not verdict.no_change for verdict in judged) >= _LEAST_CHANGING


def test_all_vectors_of_queues_and_victims_are_judged(
    verdicts: dict[str, list[Verdict]],
) -> None:
    files = ("fairshare", "fairshare_generated", "capacity_policy", "queue_order")
    files += ("reclaimable", "min_runtime")
    judged = [v for f in files for v in verdicts[f"unit__{f}.jsonl"]]
    assert sum(verdict.outcome is Outcome.PASSED for verdict in judged) >= _LEAST_UNITS


# ---- the runner itself


def fair_share_case(wanted: float) -> Case:
    amounts = {"deserved": 1, "limit": None, "over_quota_weight": 1, "request": 3, "usage": 0}
    queue = {"parent": None, "priority": 100, "created_offset_seconds": 0, "gpu": amounts}
    return {
        "id": f"made/{wanted}",
        "function": "set_fair_share_hierarchy",
        "input": {"total": {"gpu": 2}, "k_value": 1, "queues": {"a": queue}},
        "expect": {"fair_share": {"a": {"gpu": wanted, "cpu_milli": 0, "memory_bytes": 0}}},
    }


def write(folder: Path, name: str, cases: list[Case]) -> None:
    (folder / name).write_text("".join(json.dumps(case) + "\n" for case in cases))


def test_a_failing_case_is_shown_with_its_difference_and_makes_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "unit__good.jsonl", [fair_share_case(2)])
    write(tmp_path, "unit__bad.jsonl", [fair_share_case(2), fair_share_case(7)])
    write(tmp_path, "unit__later.jsonl", [{"id": "x", "function": "not_yet_known"}])
    report = tmp_path / "verdicts.json"
    assert main([str(tmp_path), "--json", str(report)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "unit__bad.jsonl  1/2 (of which not no_change: 1/2)"
    assert lines[2] == "unit__later.jsonl  0/0 (of which not no_change: 0/0), 1 skipped"
    assert "FAILED unit__bad.jsonl made/7" in lines
    assert "    a: fair share of gpu 2.0, wanted 7" in lines
    assert lines[-1] == "2 passed, 1 failed, 1 skipped"
    outcomes = {(v["file"], v["case"]): v["outcome"] for v in json.loads(report.read_text())}
    assert outcomes["unit__bad.jsonl", "made/7"] == "failed"
    assert main([str(tmp_path), "--only", "good"]) == 0


def test_a_crash_is_a_failure_of_that_case_only() -> None:
    verdict = judge({"id": "x", "function": "capacity_policy", "input": {}, "expect": {}})
    assert verdict.outcome is Outcome.FAILED
    assert "KeyError" in verdict.why[0]


def test_a_folder_without_cases_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "absent")]) == 2
    assert "absent" in capsys.readouterr().err
    (tmp_path / "unit__torn.jsonl").write_text('{"id": "a", "function": "x"}\n{"id"')
    assert main([str(tmp_path)]) == 2
    assert "unit__torn.jsonl:2" in capsys.readouterr().err


def test_a_wrong_folder_is_named_and_a_single_file_taken(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        list(run_folder(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"no .*jsonl file in there"):
        list(run_folder(tmp_path))
    case = {"id": "odd/1", "function": "never_heard_of"}
    (tmp_path / "any-name.jsonl").write_text(f"{json.dumps(case)}\n")
    for path in (tmp_path, tmp_path / "any-name.jsonl"):
        (report,) = run_folder(path)
        assert [v.why for v in report.verdicts] == [("needs never_heard_of",)]

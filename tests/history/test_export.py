"""`kai history`: the file as CSV and JSON, and what it says of itself."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kai_ray.cli.root import root
from kai_ray.history.export import WHAT
from tests.history.stories import Book, event, life
from tests.sight.worlds import World


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The history of a small cluster."""
    folder = tmp_path_factory.mktemp("history")
    with World("1x4", folder) as w:
        w.queue("team", 4)
        for number in range(4):
            w.job(f"job-{number}", "team", pods=2, seconds=100)
            w.run(60)
        w.run(600)
    return folder


def kai(*args: Any, code: int = 0) -> Result:
    done = CliRunner().invoke(root, ["history", *map(str, args)])
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize("what", WHAT)
def test_csv_and_json_say_the_same(folder: Path, what: str) -> None:
    text = kai("export", what, "--history", folder).stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    found = json.loads(kai("export", what, "--history", folder, "--format", "json").stdout)
    assert len(rows) == len(found) > 0
    for row, record in zip(rows, found, strict=True):
        assert list(row) == list(record)
        for name, value in record.items():
            if value is None:
                assert row[name] == ""
            elif isinstance(value, int | float):
                assert float(row[name]) == pytest.approx(value)
            elif isinstance(value, str):
                assert row[name] == value


def test_what_happened_since_the_last_sample_is_exported_too(tmp_path: Path) -> None:
    with World("1x4", tmp_path) as w:
        w.queue("team", 4)
        w.run(31)
        w.job("new", "team", pods=2, seconds=100)
        w.run(5)
        for what in ("jobs", "events"):
            assert "new" in kai("export", what, "--history", tmp_path).stdout


def test_what_is_exported_is_what_happened(folder: Path) -> None:
    jobs = json.loads(kai("export", "jobs", "--history", folder, "--format", "json").stdout)
    assert {job["name"] for job in jobs} == {f"job-{n}" for n in range(4)}
    assert {job["outcome"] for job in jobs} == {"Succeeded"}
    assert sum(job["held_gpu_s"] for job in jobs) == pytest.approx(4 * 2 * 100, rel=0.05)
    events = json.loads(kai("export", "events", "--history", folder, "--format", "json").stdout)
    assert [e["what"] for e in events if e["name"] == "job-0"][-1] == "ended"


def test_figures_come_in_the_step_and_time_that_are_asked_for(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "queues.csv"
    args = ("export", "queues", "--history", folder, "--step", "5m", "--output", target)
    assert kai(*args).stdout == ""
    rows = [r for r in csv.DictReader(target.open()) if r["name"] == "team"]
    times = [float(row["at_s"]) for row in rows]
    assert {b - a for a, b in itertools.pairwise(times)} == {300.0}
    whole = len(kai("export", "queues", "--history", folder).stdout.splitlines())
    part = len(kai("export", "queues", "--history", folder, "--since", "2m").stdout.splitlines())
    assert 1 < part < whole


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("export", "jobs", "--since", "soon"), "since 'soon' is no time"),
        (("export", "jobs", "--step", "never"), "--step 'never' is no time"),
        (("export", "weather"), "'weather' is not one of"),
        (("export", "jobs", "--format", "xml"), "'xml' is not one of"),
    ],
)
def test_what_cannot_be_meant_is_told(folder: Path, args: tuple[str, ...], words: str) -> None:
    assert words in kai(*args, "--history", folder, code=2).output


def test_a_file_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is none yet" in kai("info", "--history", tmp_path / "no.sqlite", code=1).output
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KAI_HOME", str(tmp_path))
    assert "name the file with --history" in kai("info", code=3).output


def test_a_target_that_cannot_be_written_is_told(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "none" / "jobs.csv"
    out = kai("export", "jobs", "--history", folder, "--output", target, code=1).output
    assert "cannot write" in out


def test_info_says_since_when_and_how_much(folder: Path) -> None:
    text = kai("info", "--history", folder).stdout
    assert re.search(r"since    2026-01-01T00:00:00Z", text)
    assert re.search(r"records  4 jobs, \d+ events, \d+ samples", text)
    assert "recording begins" in text


def test_text_that_a_table_would_take_for_a_formula_is_disarmed(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        evil = "=HYPERLINK(1)"
        book.take(event(0, "grouped"), event(1, "waits", reason="Misconfigured", message=evil))
        book.advance(10)
    text = kai("export", "events", "--history", tmp_path / "h.sqlite").stdout
    (row,) = (r for r in csv.DictReader(io.StringIO(text)) if r["what"] == "waits")
    assert row["message"] == "'" + evil
    raw = kai("export", "events", "--history", tmp_path / "h.sqlite", "--format", "json").stdout
    assert json.loads(raw)[1]["message"] == evil


def test_an_empty_history_is_an_empty_table(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        book.advance(10)
    for what in WHAT:
        assert kai("export", what, "--history", tmp_path / "h.sqlite").stdout == ""
        out = kai("export", what, "--history", tmp_path / "h.sqlite", "--format", "json").stdout
        assert json.loads(out) == []


def test_a_large_history_is_exported_page_by_page(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        for number in range(2_500):
            book.take(*life(f"job-{number:04d}", number))
        book.advance(10_000)
    text = kai("export", "jobs", "--history", tmp_path / "h.sqlite").stdout
    names = [row["name"] for row in csv.DictReader(io.StringIO(text))]
    assert names == [f"job-{n:04d}" for n in reversed(range(2_500))]
    assert len(kai("export", "events", "--history", tmp_path / "h.sqlite").stdout.splitlines()) == (
        2_500 * 8 + 1
    )


def test_the_page_about_it_shows_python_that_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "history.md").read_text()
    code = page.partition("In Python:")[2].partition("`kai_ray/history")[0]
    lines = [line[4:] for line in code.splitlines() if line.startswith("    ")]
    monkeypatch.chdir(folder)
    exec("\n".join(lines).replace('"research"', '"team"'), {})
    assert "job-3" in capsys.readouterr().out

"""From jobs on the embedded cluster to reports about them, by the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kai_ray.cli.root import root
from tests.notify.test_stories import Office


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An hour: a borrower is evicted for an owner, comes back, and fails in the end."""
    folder = tmp_path_factory.mktemp("state")
    office = Office(folder, gpu_use=True)
    with office.cluster:
        office.job("borrower", "a", 8, run="30m", exits="1", sim_gpu_use="50%")
        office.run(600)
        office.job("owner", "b", 4, run="10m")
        office.run(60)
        office.job("patient", "b", 8, run="10m")
        office.run(7200)
    return folder


def kai(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(root, ["report", *words, "--history", str(folder)])


def document(folder: Path, *words: str) -> dict[str, object]:
    done = kai(folder, *words, "-o", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_the_report_of_a_victim_tells_its_life(folder: Path) -> None:
    found = document(folder, "job", "borrower", "--price", "2")
    assert (found["state"], found["outcome"]) == ("ended", "Failed")
    assert found["evictions"] == found["restarts"] == 1
    (left,) = found["departures"]  # type: ignore[misc]
    assert left["forWhom"] == "Job default/owner"
    first, second = found["runs"]  # type: ignore[misc]
    assert (first["gpus"], second["gpus"]) == (8, 8)
    assert first["gpuHours"] == pytest.approx(8 * 600 / 3600, rel=0.05)
    assert second["ended"] == "Failed"
    hours = found["gpuHours"]
    assert isinstance(hours, dict)
    assert hours["held"] == pytest.approx(first["gpuHours"] + second["gpuHours"], rel=0.01)
    assert hours["asked"] > hours["held"]
    assert hours["used"] == pytest.approx(0.5 * hours["useKnown"], rel=0.1)
    assert hours["useKnown"] == pytest.approx(hours["held"], rel=0.1)
    assert found["cost"] == pytest.approx(2 * hours["held"], rel=1e-3)


def test_who_waited_reads_for_what(folder: Path) -> None:
    text = kai(folder, "job", "patient").output
    assert "Waited for" in text and "Insufficient" in text
    assert "State:      Succeeded" in text


def test_usage_adds_up_the_same_by_whatever(folder: Path) -> None:
    totals = []
    for by in ("queue", "user", "kind", "node-pool"):
        found = document(folder, "usage", "--by", by, "--since", "1d")
        rows, total = found["rows"], found["total"]
        assert isinstance(rows, list) and isinstance(total, dict)
        assert sum(r["gpuHoursHeld"] for r in rows) == pytest.approx(total["gpuHoursHeld"])
        totals.append(total["gpuHoursHeld"])
    assert totals == [pytest.approx(totals[0])] * 4
    by_queue = {
        r["queue"]: float(r["gpuHoursHeld"])
        for r in csv.DictReader(io.StringIO(kai(folder, "usage", "-o", "csv").output))
    }
    held = {
        name: document(folder, "job", name)["gpuHours"]["held"]  # type: ignore[index]
        for name in ("borrower", "owner", "patient")
    }
    assert by_queue["a"] == pytest.approx(held["borrower"], rel=0.01)
    assert by_queue["b"] == pytest.approx(held["owner"] + held["patient"], rel=0.01)


def test_pages_are_written_where_they_are_wanted(folder: Path, tmp_path: Path) -> None:
    for words in (("job", "borrower"), ("usage",)):
        done = kai(folder, *words, "-o", "html", "--to", str(tmp_path / "page.html"))
        assert done.output == f"written to {tmp_path / 'page.html'}\n"
        assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("job", "nobody"), 3, "the history knows no job 'nobody'"),
        (("job", "owner", "--price", "free"), 2, "give a number or a file"),
        (("usage", "--since", "soon"), 2, "write 7d"),
        (("usage", "--by", "colour"), 2, "node-pool"),
        (("usage", "--to", "/nowhere/at/all"), 1, "cannot write /nowhere/at/all"),
    ],
)
def test_what_cannot_be_reported(
    folder: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    done = kai(folder, *words)
    assert (done.exit_code, said in done.output) == (code, True), done.output


def test_a_history_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    done = kai(tmp_path, "usage")
    assert done.exit_code == 1 and "history file" in done.output
    (tmp_path / "history.sqlite").write_bytes(b"nonsense" * 1000)
    done = kai(tmp_path, "usage")
    assert done.exit_code == 1 and "no SQLite file" in done.output

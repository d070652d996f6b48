"""What happens to the history when disks, clocks and files do what they should not."""

from __future__ import annotations

import math
import shutil
import sqlite3
from pathlib import Path

import pytest

from kai_ray.history.families import QUEUES
from kai_ray.history.file import HistoryError, HistoryFile
from kai_ray.history.job_book import MOST_EVENTS
from kai_ray.history.journal import HistorySettings, Journal
from kai_ray.history.reader import HistoryReader
from kai_ray.history.schema import STEPS
from tests.history.stories import HOUR, START, Book, event, life


def test_a_full_disk_loses_nothing_and_is_told(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        assert book.advance(0)
        book.journal._file.read("PRAGMA max_page_count = 30")
        for number in range(200):
            book.take(*life(f"job-{number}"))
        assert not book.advance(10)
        assert "the disk is full" in book.journal.problem
        book.take(*life("later", 100))
        assert not book.advance(20)
        assert book.reader.jobs() == []  # nothing is written by halves
        book.journal._file.read("PRAGMA max_page_count = 100000")
        assert book.advance(3000)
        assert book.journal.problem == ""
        rows = book.reader.jobs()
        assert len(rows) == 201 and {row.held_gpu_s for row in rows} == {8 * 1500.0}
        assert len(book.reader.events("uid-later")) == 8
        (row,) = book.reader.spent(0)
        assert row.gpu_s == pytest.approx(201 * 8 * 1500)


@pytest.mark.skipif(shutil.which("mount") is None, reason="needs mount")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A file system of 512 kB; without the right to mount one, the test above stands alone."""
    import subprocess

    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a file system")
    try:
        with Book(small / "h.sqlite") as book:
            assert book.advance(0)
            filler = small / "filler"
            filler.write_bytes(b"x" * 200_000)
            for number in range(2000):
                book.take(*life(f"job-{number}"))
            assert not book.advance(10)
            assert "disk" in book.journal.problem
            filler.unlink()
            subprocess.run(["mount", "-o", "remount,size=32m", str(small)], check=True)
            assert book.advance(3000)
            assert book.reader.about().jobs == 2000
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_file_that_somebody_holds_is_written_later(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        assert book.advance(0)
        book.journal._file._db.execute("PRAGMA busy_timeout = 20")
        other = sqlite3.connect(book.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        book.take(*life())
        assert not book.advance(2000)
        assert "another program holds it" in book.journal.problem
        other.execute("ROLLBACK")
        other.close()
        assert book.advance(2000)
        assert len(book.reader.events("uid-train")) == 8


def test_what_cannot_be_written_for_long_is_bounded_and_its_loss_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kai_ray.history.job_book.MOST_EVENTS", 50)
    monkeypatch.setattr("kai_ray.history.samples.MOST_SAMPLES", 10)
    with Book(tmp_path / "h.sqlite") as book:
        assert book.advance(0)
        book.journal._file._db.execute("PRAGMA busy_timeout = 0")
        other = sqlite3.connect(book.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for number in range(20):
            book.take(*life(f"job-{number}"))
            book.journal.samples.add(QUEUES, START + number * 30, ["q"], {"allocated": [1.0]})
            assert not book.advance(number)
        other.close()
        assert book.advance(3000)
        about = book.reader.about()
        assert (about.jobs, about.events, about.samples) == (20, 50, 10)
        assert any("120 records are lost" in text for _, text in about.notes)
    assert MOST_EVENTS >= 100_000


def test_a_clock_that_goes_back_costs_no_time_and_is_told(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        book.take(event(0, "grouped"), event(0, "started", held=2))
        assert book.advance(1000)
        assert book.advance(400)  # back by ten minutes
        assert book.advance(500)
        job = book.reader.job("uid-train")
        assert job is not None and job.held_gpu_s >= 0
        book.take(event(600, "ended", reason="Succeeded"))
        assert book.advance(600)
        job = book.reader.job("uid-train")
        assert job is not None
        assert job.held_gpu_s == pytest.approx(2 * (1000 + 200))
        assert (job.ran_s, job.ended_s) == (600.0, START + 600)
        assert "the clock went back by 600 s" in book.reader.about().notes[0][1]


def test_a_clock_behind_the_file_at_a_start_is_told(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with Book(path) as book:
        book.take(event(0, "grouped"), event(0, "started", held=2))
        book.advance(5000)
    with Book(path, 1000) as again:
        again.advance(1100)
        assert any("went back by 4000 s" in text for _, text in again.reader.about().notes)
        job = again.reader.job("uid-train")
        assert job is not None and job.held_gpu_s == pytest.approx(2 * 5100, abs=300)


def test_a_machine_that_slept_counts_no_sleep(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        book.take(event(0, "grouped"), event(0, "started", held=2))
        book.advance(100, longest_s=300)
        book.advance(9 * HOUR, longest_s=300)
        book.advance(9 * HOUR + 50, longest_s=300)
        (row,) = book.reader.spent(0)
        assert row.gpu_s == pytest.approx(2 * 150)
        assert any("nothing was recorded" in text for _, text in book.reader.about().notes)


def newer(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA application_id = 1262569810")
    db.execute("PRAGMA user_version = 99")
    db.close()


def foreign(path: Path) -> None:
    sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close()


SPOILED = [
    (newer, "has version 99, this program knows versions up to"),
    (foreign, "belongs to another program"),
    (lambda path: path.write_bytes(b"not a database" * 1000), "no SQLite file"),
    (lambda path: path.mkdir(), "folder"),
]


@pytest.mark.parametrize(("spoil", "words"), SPOILED)
def test_a_file_that_is_no_history_is_left_alone_and_told(
    spoil, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "h.sqlite"
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    for use in (lambda: Journal(HistorySettings(path), START), HistoryReader(path).jobs):
        with pytest.raises(HistoryError, match=words) as told:
            use()
        assert str(path) in str(told.value)
    assert before is None or path.read_bytes() == before


def test_a_file_of_an_older_program_is_brought_forward(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    db = sqlite3.connect(path)
    db.executescript(
        f"{STEPS[0]} PRAGMA application_id = 1262569810; PRAGMA user_version = 1;"
        "INSERT INTO usage VALUES (1, 'team', '', 1, 2, 3);"
    )
    db.close()
    if db_version(path) != 1:
        pytest.fail("the old file is not as it was meant")
    with pytest.raises(HistoryError, match="brings it to"):
        HistoryReader(path).jobs()
    with Book(path) as book:
        book.take(*life())
        assert book.advance(2000)
        assert len(book.reader.jobs()) == 1
        assert book.journal._file.read("SELECT gpu FROM usage") == [(3.0,)]


def db_version(path: Path) -> int:
    db = sqlite3.connect(path)
    try:
        return int(db.execute("PRAGMA user_version").fetchone()[0])
    finally:
        db.close()


def test_usage_and_jobs_share_a_file_and_others_are_kept_out(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with Book(path) as book:
        usage = HistoryFile(path)
        usage.write("INSERT INTO usage VALUES (?,?,?,?,?,?)", [(1, "team", "", 1, 2, 3)])
        with pytest.raises(HistoryError, match="this process writes it already"):
            HistoryFile(path)
        usage.close()
        usage = HistoryFile(path)  # the lock is still held for the jobs
        usage.close()
        book.take(*life())
        assert book.advance(2000)


def test_readers_see_one_state_while_it_is_written(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        book.take(*life("one"))
        book.advance(2000)
        walking = book.reader.each_event(0)
        assert next(walking).what == "created"
        book.take(*life("two", 3000))
        assert book.advance(9000)  # a reader is in nobody's way
        assert len(list(walking)) == 7
        assert len(book.reader.events_since(0)) == 16


def test_a_history_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="there is none yet"):
        HistoryReader(tmp_path / "none.sqlite").about()


def test_damaged_rows_are_told(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        book.journal.samples.add(QUEUES, START, ["q"], {"allocated": [1.0]})
        book.advance(60)
        book.journal._file.write("UPDATE samples SET data = ?", [(b"nonsense",)])
        with pytest.raises(HistoryError, match="damaged"):
            book.reader.queues(0)


def test_figures_without_an_end_are_asked_for(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        book.advance(0)
        assert book.reader.jobs(0, math.inf) == []
        assert book.reader.queues(0, math.inf).names == ()
        assert book.reader.spent(0, math.inf) == []
        assert book.reader.cluster(-5.0).at_s.size == 0

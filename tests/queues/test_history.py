"""The history file: what it keeps, and what it says when it cannot."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from kai_ray.history.file import STEPS, HistoryError, HistoryFile
from kai_ray.history.usage import CAPACITY, Holder, UsageRecord
from kai_ray.history.window import UsageSettings, WindowType

DAY = 86_400.0
START = 1_000 * DAY
TEAM, ADA = Holder("team"), Holder("team", "ada")


def settings(**more) -> UsageSettings:
    return UsageSettings(**{"window_s": 10 * DAY, "interval_s": DAY, **more})


def hold(record: UsageRecord, now: float, gpus: float) -> None:
    record.observe(now, {CAPACITY: (1.0, 1.0, 8.0), TEAM: (0.0, 0.0, gpus)})


def gpu(record: UsageRecord, now: float, holder: Holder = TEAM) -> float:
    usage = record.usage(now)
    found = usage.users.get(holder) if holder.user else usage.queues.get(holder.queue)
    return found[2] if found else 0.0


def test_usage_is_the_part_of_the_capacity_over_the_window() -> None:
    record = UsageRecord(settings())
    hold(record, START, 4.0)
    hold(record, START + DAY, 0.0)
    record.advance(START + 2 * DAY)
    assert gpu(record, START + 2 * DAY) == pytest.approx(0.25, rel=0.01)


def test_what_lies_before_a_sliding_window_counts_no_more() -> None:
    record = UsageRecord(settings())
    hold(record, START, 8.0)
    hold(record, START + DAY, 0.0)
    for day in range(2, 13):
        record.advance(START + day * DAY)
        record.flush(START + day * DAY)
    assert gpu(record, START + 12 * DAY) == 0.0


def test_a_half_life_halves_old_usage() -> None:
    record = UsageRecord(settings(half_life_s=DAY))
    hold(record, START, 8.0)
    hold(record, START + DAY, 0.0)
    record.advance(START + 2 * DAY)
    # One day at 8 of 8, weighing half of the day after it.
    assert gpu(record, START + 2 * DAY) == pytest.approx(1 / 3, rel=0.02)


def test_a_tumbling_window_begins_anew_for_all_at_once() -> None:
    window = settings(window=WindowType.TUMBLING, window_s=2 * DAY, start_s=START)
    record = UsageRecord(window)
    hold(record, START, 8.0)
    record.advance(START + 2 * DAY - 1000)
    assert gpu(record, START + 2 * DAY - 1000) == pytest.approx(1.0)
    hold(record, START + 2 * DAY, 0.0)
    record.advance(START + 2 * DAY + 3600)
    assert gpu(record, START + 2 * DAY + 3600) < 0.06  # one bucket across the border


def test_users_are_counted_inside_their_queue() -> None:
    record = UsageRecord(settings())
    record.observe(START, {CAPACITY: (1.0, 1.0, 8.0), TEAM: (0, 0, 4.0), ADA: (0, 0, 2.0)})
    record.advance(START + DAY)
    assert gpu(record, START + DAY, ADA) == pytest.approx(0.25)


def test_a_restart_goes_on_from_the_file(tmp_path: Path) -> None:
    first = UsageRecord(settings(), HistoryFile(tmp_path / "h.sqlite"))
    hold(first, START, 8.0)
    first.advance(START + DAY)
    first.flush(START + DAY)
    first.close()
    second = UsageRecord(settings(), HistoryFile(tmp_path / "h.sqlite"))
    second.load(START + DAY)
    assert gpu(second, START + DAY) == pytest.approx(1.0)
    hold(second, START + DAY, 0.0)
    second.advance(START + 2 * DAY)
    assert gpu(second, START + 2 * DAY) == pytest.approx(0.5, rel=0.02)
    second.close()


def test_a_kill_loses_at_most_what_was_not_flushed(tmp_path: Path) -> None:
    record = UsageRecord(settings(), HistoryFile(tmp_path / "h.sqlite"))
    hold(record, START, 8.0)
    record.advance(START + DAY)
    record.flush(START + DAY)
    record.advance(START + DAY + 600)  # not written any more
    for name in ("h.sqlite", "h.sqlite-wal"):
        if (tmp_path / name).exists():
            shutil.copy(tmp_path / name, tmp_path / name.replace("h.", "copy."))
    again = UsageRecord(settings(), HistoryFile(tmp_path / "copy.sqlite"))
    again.load(START + DAY + 600)
    assert again.problem == ""
    assert gpu(again, START + DAY + 600) == pytest.approx(1.0)


def test_a_clock_that_goes_back_costs_nothing() -> None:
    record = UsageRecord(settings())
    hold(record, START, 4.0)
    record.advance(START + DAY)
    record.advance(START)
    assert record.clock_steps == 1
    assert gpu(record, START) == pytest.approx(0.5)
    record.advance(START + DAY)
    assert gpu(record, START + DAY) == pytest.approx(0.5)


def test_a_machine_that_slept_does_not_count_its_sleep() -> None:
    record = UsageRecord(settings(interval_s=60.0))
    hold(record, START, 8.0)
    record.advance(START + 60)
    record.advance(START + DAY)
    record.observe(START + DAY, {CAPACITY: (1.0, 1.0, 8.0)})
    record.advance(START + DAY + 120)
    assert gpu(record, START + DAY + 120) == pytest.approx(0.5, rel=0.1)


def test_a_full_disk_is_named_and_what_was_missed_is_written_later(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "h.sqlite")
    pages = file.read("PRAGMA page_count")[0][0]
    file.read(f"PRAGMA max_page_count = {pages}")
    record = UsageRecord(settings(), file)
    many = {Holder("team", f"user-{i}"): (1.0, 1.0, 1.0) for i in range(2000)}
    record.observe(START, {CAPACITY: (1.0, 1.0, 8.0), **many})
    record.advance(START + DAY)
    record.flush(START + DAY)
    assert "the disk is full" in record.problem
    assert gpu(record, START + DAY, Holder("team", "user-7")) == pytest.approx(0.125)
    file.read("PRAGMA max_page_count = 1000000")
    record.flush(START + DAY)
    assert record.problem == ""
    record.close()
    again = UsageRecord(settings(), HistoryFile(tmp_path / "h.sqlite"))
    again.load(START + DAY)
    assert gpu(again, START + DAY, Holder("team", "user-7")) == pytest.approx(0.125)


def _other_version(path: Path) -> None:
    HistoryFile(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {len(STEPS) + 3}")


def _other_program(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")


def _no_database(path: Path) -> None:
    path.write_text("not a database, but long enough to be taken for one " * 20)


def _taken(path: Path) -> None:
    global _held
    _held = HistoryFile(path)


_held: HistoryFile | None = None


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_other_version, "use a newer program"),
        (_other_program, "belongs to another program"),
        (_no_database, "it is no SQLite file"),
        (_taken, "writes it"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, spoil, words: str) -> None:
    path = tmp_path / "h.sqlite"
    spoil(path)
    with pytest.raises(HistoryError, match=words) as error:
        HistoryFile(path)
    assert str(path) in str(error.value)


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match="folder that can be written"):
        HistoryFile(tmp_path / "file" / "below" / "h.sqlite")


def test_a_busy_file_is_not_waited_for(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "h.sqlite")
    with sqlite3.connect(tmp_path / "h.sqlite", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        record = UsageRecord(settings(), file)
        hold(record, START, 8.0)
        record.advance(START + DAY)
        record.flush(START + DAY)
        assert "it is tried again" in record.problem
        other.execute("COMMIT")
    record.flush(START + DAY)
    assert record.problem == ""

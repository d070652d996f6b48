"""Sampled figures: packed, rolled up, read back at the resolution that covers a time."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kai_ray.history.families import CLUSTER, FAMILIES, JOBS, NODES, QUEUES
from kai_ray.history.packing import pack, unpack
from kai_ray.history.samples import mean
from tests.history.stories import DAY, HOUR, START, Book


@given(
    st.integers(1, 6).flatmap(
        lambda columns: st.integers(0, 20).flatmap(
            lambda count: arrays.arrays(
                np.float32, (columns, count), elements=st.floats(-(2.0**90), 2.0**90, width=32)
            )
        )
    )
)
def test_what_is_packed_comes_back(values: np.ndarray) -> None:
    ids = np.arange(values.shape[1], dtype=np.int32) * 7
    found_ids, found = unpack(pack(ids, values))
    assert found_ids.tolist() == ids.tolist()
    np.testing.assert_allclose(found, values, rtol=2**-16, atol=1e-37)
    whole = np.arange(65_537, dtype=np.float64)[None, :]
    assert unpack(pack(np.arange(65_537, dtype=np.int32), whole))[1].tolist() == whole.tolist()


@pytest.mark.parametrize("data", [b"", b"abc", pack(np.zeros(3, np.int32), np.zeros((2, 3)))[:-4]])
def test_bytes_that_are_no_figures_are_told(data: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        unpack(data)


def test_a_mean_leaves_out_what_is_not_known_and_keeps_the_last_setting() -> None:
    quota, allocated = QUEUES.columns.index("quota"), QUEUES.columns.index("allocated")

    def sample(ids: list[int], quotas: list[float], amounts: list[float]) -> bytes:
        values = np.full((len(QUEUES.columns), len(ids)), np.nan)
        values[quota], values[allocated] = quotas, amounts
        return pack(np.array(ids, np.int32), values)

    packed = [
        sample([1, 2], [4, -1], [2, 8]),
        sample([1], [6], [4]),
        sample([1, 3], [6, 1], [np.nan, 5]),
    ]
    ids, values = unpack(mean(QUEUES, packed))
    assert ids.tolist() == [1, 2, 3]
    assert values[quota].tolist() == [6, -1, 1]
    assert values[allocated].tolist() == [3, 8, 5]
    assert np.isnan(values[QUEUES.columns.index("waiting")]).all()


def record(book: Book, hours: float, step: int = 30, begin: float = 0.0) -> None:
    """A queue that holds as many GPUs as minutes have passed."""
    at = begin
    while at < begin + hours * HOUR:
        columns = {"quota": [8.0], "allocated": [at / 60]}
        book.journal.samples.add(QUEUES, START + at, ["team"], columns)
        if at % 600 == 0:
            assert book.advance(at)
            book.journal.roll_up(START + at)
        at += step
    assert book.advance(at)
    while book.journal.roll_up(START + at):
        pass


def test_figures_come_at_the_step_that_is_asked_for(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        record(book, 3)
        fine = book.reader.queues(START + HOUR, START + 2 * HOUR)
        assert fine.step_s == 30 and fine.names == ("team",)
        assert fine.at_s[0] == START + HOUR and len(fine.at_s) == 120
        assert fine.of("team")["allocated"].tolist() == pytest.approx((fine.at_s - START) / 60)
        for step, count in ((300, 12), (600, 6), (1800, 2), (HOUR, 1)):
            coarse = book.reader.queues(START + HOUR, START + 2 * HOUR, step)
            assert (coarse.step_s, len(coarse.at_s)) == (step, count)
            middle = (coarse.at_s - START + step / 2 - 15) / 60
            assert coarse.of("team")["allocated"].tolist() == pytest.approx(middle)
            assert set(coarse.of("team")["quota"].tolist()) == {8.0}
        with pytest.raises(KeyError):
            fine.of("nobody")
        assert book.reader.queues(0, names=["nobody"]).names == ()


def test_what_is_not_rolled_up_yet_is_there_all_the_same(tmp_path: Path) -> None:
    """An hour that has not ended is told from the samples of its minutes."""
    with Book(tmp_path / "h.sqlite") as book:
        record(book, 2.5)
        hourly = book.reader.queues(START, START + 3 * HOUR, HOUR)
        assert (hourly.at_s - START).tolist() == [0, HOUR, 2 * HOUR]
        assert hourly.of("team")["allocated"].tolist() == pytest.approx(
            [59.5 / 2, 60 + 59.5 / 2, 120 + 29.5 / 2]
        )


def test_roll_ups_go_on_after_a_restart_and_after_a_long_absence(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with Book(path) as book:
        record(book, 1.5)
    with Book(path, 10 * HOUR) as again:
        record(again, 2, begin=10 * HOUR)
        rows = again.reader.queues(START, START + 13 * HOUR, HOUR)
        assert ((rows.at_s - START) / HOUR).tolist() == [0, 1, 10, 11]
        kept = dict(
            again.journal._file.read("SELECT step_s, count(*) FROM samples GROUP BY step_s")
        )
        assert kept == {30: 420, 300: 42, HOUR: 4}


def test_a_month_is_read_from_its_roll_ups_when_the_samples_are_gone(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        record(book, 24 * 12, step=600)
        book.journal.forget(START + 12 * DAY)
        steps = dict(book.journal._file.read("SELECT step_s, min(at_s) FROM samples GROUP BY 1"))
        assert steps[30] >= START + 11 * DAY and steps[300] >= START + 5 * DAY
        assert steps[HOUR] == START
        month = book.reader.queues(START)
        assert month.step_s == HOUR and len(month.at_s) == 24 * 12
        day = book.reader.queues(START + 11.5 * DAY)
        assert day.step_s == 30


def test_a_clock_that_was_set_back_writes_over_what_it_had_written(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        record(book, 2)
        book.journal.samples.add(QUEUES, START + HOUR, ["team"], {"allocated": [1000.0]})
        assert book.advance(HOUR)
        book.journal.roll_up(START + HOUR)
        found = book.reader.queues(START + HOUR, START + HOUR + 30).of("team")
        assert found["allocated"].tolist() == [1000.0]
        assert "went back" in book.reader.about().notes[0][1]


def test_families_have_coarser_levels_that_are_kept_for_longer() -> None:
    assert {f.name for f in (QUEUES, NODES, CLUSTER, JOBS)} == set(FAMILIES)
    for family in FAMILIES.values():
        steps = [level.step_s for level in family.levels]
        keeps = [level.keep_s for level in family.levels]
        assert steps == sorted(set(steps)) and keeps == sorted(set(keeps))
        assert all(b % a == 0 for a, b in itertools.pairwise(steps))
        assert set(family.settings) <= set(family.columns)

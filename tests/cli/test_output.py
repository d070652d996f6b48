"""How figures, ages and tables are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.cli import output
from kai_ray.cli.output import Column


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (3599, "59m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 300, "3h5m"),
        (30 * 3600, "30h"),
        (50 * 3600, "2d2h"),
        (30 * 86400, "30d"),
    ],
)
def test_ages_are_written_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert output.duration(seconds) == text


def test_an_age_counts_from_the_timestamp() -> None:
    assert output.age("1970-01-01T00:01:00Z", now_s=90) == "30s"
    assert output.age(None) == "-"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8.0, "8"),
        (0.5, "0.5"),
        (-1, "unlimited"),
        (None, "-"),
        (0, "0"),
        (10.0, "10"),
        (100, "100"),
    ],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert output.number(value) == text


COLUMNS: tuple[Column[tuple[str, str]], ...] = (
    Column("NAME", lambda r: r[0]),
    Column("WIDE", lambda r: "w", wide=True),
    Column("STATE", lambda r: r[1]),
)

words = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=12)


@given(st.lists(st.tuples(words, words), max_size=6))
def test_columns_stand_below_their_titles(rows: list[tuple[str, str]]) -> None:
    lines = output.lines(COLUMNS, rows)
    assert len(lines) == len(rows) + 1
    at = lines[0].index("STATE")
    for line, (name, state) in zip(lines[1:], rows, strict=True):
        assert line[:at].rstrip() == (name or "-")
        assert line[at:] == (state or "-")


def test_wide_columns_show_only_when_asked_for() -> None:
    assert output.lines(COLUMNS, [("a", "b")]) == ["NAME   STATE", "a      b"]
    assert output.lines(COLUMNS, [("a", "b")], wide=True)[0] == "NAME   WIDE   STATE"


def test_a_table_that_goes_on_keeps_its_columns() -> None:
    widths: list[int] = []
    output.lines(COLUMNS, [("a-long-name", "b")], widths=widths)
    (later,) = output.lines(COLUMNS, [("a", "b")], header=False, widths=widths)
    assert later == "a             b"


def test_no_colour_when_piped_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not output.use_colour()  # tests do not run on a terminal
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not output.use_colour()


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_what_users_write_stays_in_its_line_and_moves_no_cursor(texts: list[str]) -> None:
    columns: list[Column[str]] = [
        Column("MESSAGE", lambda text: text),
        Column("AGE", lambda _: "1s"),
    ]
    made = output.lines(columns, texts)
    assert len(made) == len(texts) + 1
    assert all(line.isprintable() for line in made)

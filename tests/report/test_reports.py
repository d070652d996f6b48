"""Reports: figures, gaps that are told, and pages that need nothing else and run nothing."""

from __future__ import annotations

import csv
import io
import json
import math
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.report import documents
from kai_ray.report.axes import time_ticks, value_ticks
from kai_ray.report.curves import integral, points, ratio
from kai_ray.report.job import JobReport, NoSuchJob, find, job_report
from kai_ray.report.job_page import job_page
from kai_ray.report.job_text import job_text
from kai_ray.report.prices import Prices
from kai_ray.report.usage import UsageReport, usage_report
from kai_ray.report.usage_page import usage_page
from kai_ray.report.usage_text import usage_text
from kai_ray.report.window import WindowError, window
from kai_ray.report.words import hours
from tests.report.events import START_S, event
from tests.report.readers import H100, Written, row, series, spent

HOUR = 3600.0
NASTY = "<script>alert(1)</script>&\"'"


def evicted_job(name: str = "train", queue: str = "vision") -> tuple[Written, JobReport]:
    """Waits an hour, runs one on 8 GPUs, is evicted, waits half an hour, runs two."""
    events = [
        event("created", 0),
        event("waits", 0, "InsufficientGpu"),
        event("started", HOUR),
        event("evicted", 2 * HOUR, "Reclaimed", for_whom="RayJob nlp/owner"),
        event("resumed", 2.5 * HOUR),
        event("ended", 4.5 * HOUR, "Succeeded"),
    ]
    job = row(
        name=name,
        queue=queue,
        ended_s=START_S + 4.5 * HOUR,
        started_s=START_S + HOUR,
        held_gpu_s=24 * HOUR,
        used_gpu_s=12 * HOUR,
        known_gpu_s=16 * HOUR,
        by_type=((H100, "pool-a", 16 * HOUR), (H100, "pool-b", 4 * HOUR), ("T4", "", 4 * HOUR)),
    )
    use = series(
        1800, START_S + HOUR, held=[8.0] * 4, known=[8.0, 8.0, 0.0, 8.0], used=[4, 8, math.nan, 0]
    )
    written = Written([job], {"u1": events}, {"u1": use})
    report = job_report(
        written.as_reader(), job, START_S + 9 * HOUR, Prices({"H100": 2.0}, currency="EUR")
    )
    return written, report


def test_a_job_report_adds_up() -> None:
    _, report = evicted_job()
    assert (report.waited_s, report.ran_s) == (1.5 * HOUR, 3 * HOUR)
    assert (report.restarts, report.evictions) == (1, 1)
    assert report.asked_hours == pytest.approx(8 * 4.5)
    assert (report.held_hours, report.used_hours, report.known_hours) == (24, 12, 16)
    assert report.by_type == ((H100, 20.0), ("T4", 4.0))
    assert report.cost == 40.0
    assert [(w.reason, w.seconds, w.times) for w in report.waits] == [
        ("InsufficientGpu", HOUR, 1),
        ("Evicted", HOUR / 2, 1),
    ]
    assert [(r.gpu_hours, r.ended) for r in report.runs] == [(8, "Reclaimed"), (16, "Succeeded")]
    assert report.departures[0].for_whom == "RayJob nlp/owner"
    assert [v for _, v in report.use] == [0.5, 1.0, None, 0.0, None]
    assert "4 GPU hours on T4" in report.notes[0]
    assert "33 %" in report.notes[1]


def test_a_job_that_still_runs_is_counted_up_to_now() -> None:
    job = row(state="running", outcome="")
    written = Written([job], {"u1": [event("created", 0), event("started", 60)]})
    report = job_report(written.as_reader(), job, START_S + 660)
    assert (report.ran_s, report.cost, report.used_hours) == (600, None, None)
    assert report.runs[0].ended == ""
    assert "runs" in job_text(report)
    assert "Counted:    up to " in job_text(report)


def test_a_job_that_has_news_since_the_last_sample_is_counted_up_to_them() -> None:
    job = row(state="waiting", outcome="")
    events = [event("created", 0), event("started", 60), event("evicted", 660, "Reclaimed")]
    report = job_report(Written([job], {"u1": events}).as_reader(), job, START_S + 30)
    assert (report.waited_s, report.ran_s) == (60, 600)


def test_a_job_that_never_was_and_one_whose_youth_is_forgotten() -> None:
    with pytest.raises(NoSuchJob, match="no job 'x'"):
        find(Written().as_reader(), "default", "x")
    with pytest.raises(NoSuchJob, match=r"no Job 'train' .* but RayJob of that name"):
        find(Written([row()]).as_reader(), "default", "train", "Job")
    inner = row(kind="JobSet")
    assert find(Written([inner]).as_reader(), "default", "train", "TrainJob") == inner
    written = Written([row()], {"u1": [event("resumed", 9000)]})
    report = job_report(written.as_reader(), row(), START_S + 9060)
    assert any("no longer in the history" in note for note in report.notes)


def usage(**more: object) -> UsageReport:
    written = Written(
        spendings=[
            spent("a", H100, hours=10, used_gpu_s=6 * HOUR, known_gpu_s=8 * HOUR, started=2.5),
            spent("a", "", hours=0, waited_gpu_s=4 * HOUR, waited_s=HOUR, evicted=1),
            spent("b", "T4", hours=5, known_gpu_s=5 * HOUR, failed=1, ended=1),
            spent("", "", hours=0),
        ],
        cluster_=series(3600, START_S, gpus=[8, 8, 4], allocated=[8, math.nan, 2], used=[4, 1, 1]),
    )
    for key, value in more.items():
        setattr(written, key, value)
    prices = Prices({"H100": 3.0}, currency="EUR")
    return usage_report(written.as_reader(), "queue", START_S, START_S + 3 * HOUR, prices)


def test_usage_is_summed_up_by_name_and_type() -> None:
    report = usage()
    first, second = report.rows
    assert (first.name, first.held_hours, first.asked_hours, first.cost) == ("a", 10, 14, 30)
    assert (first.used_part, first.waited_hours, first.started) == (0.75, 1, 2)
    assert (second.name, second.used_part, second.cost, second.failed) == ("b", 0, None, 1)
    assert (report.total.held_hours, report.total.cost) == (15, 30)
    assert report.capacity_hours == 20
    assert [v for _, v in report.held] == [8, None, 2, None]
    assert "5 GPU hours on T4" in report.notes[0]


def test_what_the_history_does_not_know_is_said() -> None:
    late = usage(first_s=START_S + 2 * HOUR)
    assert "begins at" in late.notes[-1]
    empty = usage(first_s=None, spendings=[], cluster_=None)
    assert empty.rows == () and empty.notes == ("the history is empty",)
    assert "TOTAL" in usage_text(empty)
    assert "<h1>" in usage_page(empty, START_S)


def test_node_pools_are_those_of_nodes() -> None:
    written = Written(
        spendings=[spent("", "", waited_s=5, waited_gpu_s=9), spent("p", "", hours=1)]
    )
    report = usage_report(written.as_reader(), "node-pool", START_S, START_S + HOUR)
    assert written.asked_by == ("pool", "product")
    assert [r.name for r in report.rows] == ["p"]
    assert report.total.waited_hours > 0


# As documents.


def test_documents_are_json_and_csv_that_programs_read() -> None:
    _, report = evicted_job()
    document = json.loads(json.dumps(documents.job_document(report), allow_nan=False))
    assert document["gpuHours"]["byType"] == {H100: 20.0, "T4": 4.0}
    assert document["departures"][0]["forWhom"] == "RayJob nlp/owner"
    lines = list(csv.DictReader(io.StringIO(documents.job_csv(report))))
    assert [line["phase"] for line in lines] == ["waiting", "running"] * 2 + []
    whole = json.loads(json.dumps(documents.usage_document(usage()), allow_nan=False))
    assert whole["total"]["gpuHoursHeld"] == 15
    rows = list(csv.DictReader(io.StringIO(documents.usage_csv(usage()))))
    assert [(r["queue"], r["cost"], r["gpuHoursUsed"]) for r in rows] == [
        ("a", "30.0", "6.0"),
        ("b", "", "0.0"),
    ]


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@SUM(A1)"])
def test_no_name_is_a_formula_in_a_spreadsheet(name: str) -> None:
    text = documents.usage_csv(usage(spendings=[spent(name, "", hours=1)]))
    assert next(csv.DictReader(io.StringIO(text)))["queue"] == f"'{name}"


# As pages.


class _Page(HTMLParser):
    """Every tag closed, no script, nothing from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert name not in ("src", "href", "style", "srcset", "action"), (tag, name)
            assert not name.startswith("on"), (tag, name)
            assert "url(" not in (value or "")
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> _Page:
    parsed = _Page()
    parsed.feed(page)
    parsed.close()
    assert parsed.open == []
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & set(parsed.tags)
    assert "default-src 'none'" in page
    assert "http://" not in page and "https://" not in page and "nan" not in "".join(parsed.text)
    return parsed


def test_a_page_of_a_job_needs_nothing_else_and_shows_what_the_text_shows() -> None:
    _, report = evicted_job()
    parsed = read(job_page(report, START_S))
    text = " ".join(parsed.text)
    for words in ("RayJob default/train", "InsufficientGpu", "Reclaimed", "40.00 EUR", H100):
        assert words in text
        assert words in job_text(report)
    assert parsed.tags.count("svg") == 3


def test_a_page_of_usage_needs_nothing_else() -> None:
    parsed = read(usage_page(usage(), START_S))
    assert parsed.tags.count("svg") == 2
    assert {"a", "b", "Total", "30.00 EUR"} <= set(parsed.text)


def test_no_name_gets_out_of_its_place() -> None:
    _, report = evicted_job(name=NASTY, queue=NASTY)
    assert any(NASTY in text for text in read(job_page(report, START_S)).text)
    made = usage(spendings=[spent(NASTY, NASTY, hours=1)])
    assert any(NASTY in text for text in read(usage_page(made, START_S)).text)


def test_a_page_stays_small_whatever_it_shows() -> None:
    rows = [spent(f"queue-{n}", H100, hours=n) for n in range(1000)]
    many = series(60, START_S, gpus=[8] * 43_200, allocated=list(range(43_200)), used=[1] * 43_200)
    assert len(usage_page(usage(spendings=rows, cluster_=many), START_S)) < 400_000


# Axes, curves and times.


@given(st.floats(1e-9, 1e12))
def test_ticks_reach_the_highest_value_in_few_round_steps(highest: float) -> None:
    ticks = value_ticks(highest)
    assert ticks[0] == 0 and ticks[-1] >= highest * (1 - 1e-6)
    assert 2 <= len(ticks) <= 7


@given(st.floats(0, 4e9), st.floats(1e-3, 4e8))
def test_times_stand_inside_and_in_order(since: float, length: float) -> None:
    ticks = time_ticks(since, since + length)
    assert len(ticks) <= 9
    assert all(since - 1e-3 <= at <= since + length + 1e-3 for at, _ in ticks)
    assert [at for at, _ in ticks] == sorted(at for at, _ in ticks)


def test_curves_have_gaps_where_nothing_is_known() -> None:
    curve = points([0, 60, 300, 360], [1, 2, 3, math.nan], 60)
    assert curve == ((0, 1), (60, 2), (120, None), (300, 3), (360, None))
    assert integral(curve, 1000) == 60 + 120 + 180
    assert integral(curve, 330) == 60 + 120 + 90
    assert integral((), 10) is None
    assert ratio(((0, 1.0), (60, None), (120, 3.0)), ((0, 2.0), (60, 1.0), (120, 0.0))) == (
        (0, 0.5),
        (60, None),
        (120, None),
    )


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("7d", "", (START_S - 7 * 86_400, START_S)),
        ("36h", "12h", (START_S - 36 * HOUR, START_S - 12 * HOUR)),
        ("2w", "1d", (START_S - 14 * 86_400, START_S - 86_400)),
        ("1.5d", "", (START_S - 1.5 * 86_400, START_S)),
        ("1970-01-02", "1970-01-03T00:00:00Z", (86_400, 172_800)),
        ("1970-01-02T01:00:00+01:00", "", (86_400, START_S)),
    ],
)
def test_times_as_people_write_them(since: str, until: str, expected: tuple[float, float]) -> None:
    assert window(since, until, START_S) == expected


@pytest.mark.parametrize("since", ["yesterday", "-1h", "7", "d", "9999999999d", "2026-13-01", "0s"])
def test_times_that_are_none(since: str) -> None:
    if since == "9999999999d":
        with pytest.raises(WindowError):
            window(since, "", START_S)
        return
    with pytest.raises(WindowError, match=r"write 7d|is not before"):
        window(since, "", START_S)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.004, "<0.01"),
        (0.25, "0.25"),
        (8.0, "8"),
        (12.34, "12.3"),
        (100, "100"),
        (1234.56, "1,234.6"),
    ],
)
def test_hours_as_people_read_them(value: float | None, text: str) -> None:
    assert hours(value) == text

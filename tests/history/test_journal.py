"""The journal: what goes in comes out, and what was held in between is added up exactly."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_ray.history.job_event import WHAT, JobEvent
from tests.history.stories import DAY, HOUR, START, Book, event, life


def test_the_life_of_a_job_is_kept_with_what_it_waited_ran_and_held(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        told = life()
        book.take(*told)
        book.advance(2000)
        job = book.reader.job("uid-train")
        assert job is not None
        assert (job.state, job.outcome, job.kind, job.queue) == (
            "ended",
            "Succeeded",
            "PyTorchJob",
            "team",
        )
        assert (job.waited_s, job.ran_s) == (150.0, 1500.0)
        assert (job.starts, job.evictions, job.interruptions) == (2, 1, 0)
        assert job.held_gpu_s == 8 * 1500
        assert job.by_type == (("H100", "big", 8 * 1500.0),)
        assert (job.created_s, job.started_s, job.ended_s) == (START, START + 100, START + 1650)
        kept = book.reader.events("uid-train")
        assert [e.what for e in kept] == [e.what for e in told]
        assert [(e.reason, e.for_whom, e.nodes) for e in kept if e.what == "evicted"] == [
            ("Reclaimed", "RayJob research/other", ("n-1", "n-2"))
        ]
        assert {e.group for e in kept} == {"pg-train"}


def test_a_job_that_runs_is_counted_up_to_now(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        book.take(*life()[:4])
        book.advance(400)
        book.advance(700)
        job = book.reader.job("uid-train")
        assert job is not None and job.state == "running"
        assert (job.ran_s, job.held_gpu_s) == (600.0, 8 * 600.0)


def test_hours_are_counted_apart_and_asked_for_in_part(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        book.take(event(0, "grouped"), event(0, "started", held=4))
        book.advance(2.5 * HOUR)
        (row,) = book.reader.spent(0.0)
        assert (row.key, row.gpu_s, row.started) == (("team",), 4 * 2.5 * HOUR, 1)
        (row,) = book.reader.spent(START + 0.5 * HOUR, START + 1.5 * HOUR)
        assert row.gpu_s == pytest.approx(4 * HOUR)
        (row,) = book.reader.spent(START + 2.25 * HOUR)
        assert row.gpu_s == pytest.approx(4 * 0.25 * HOUR)
        assert book.reader.spent(START + 3 * HOUR) == []


def test_spending_is_summed_up_by_what_is_asked_for(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        book.take(*life("one"), *life("two", 10))
        book.take(*(_with(e, queue="other", user="bob") for e in life("three")))
        book.advance(4000)
        by = {row.key: row for row in book.reader.spent(0, by=("queue", "user"))}
        assert by["team", "ada"].gpu_s == 2 * 8 * 1500
        assert by["other", "bob"].gpu_s == 8 * 1500
        assert (by["team", "ada"].started, by["team", "ada"].evicted) == (4, 2)
        assert (by["team", "ada"].ended, by["team", "ada"].failed) == (2, 0)
        assert by["other", "bob"].waited_s == 150
        assert by["other", "bob"].waited_gpu_s == 150 * 8
        (whole,) = book.reader.spent(0, by=())
        assert whole.gpu_s == 3 * 8 * 1500
        pools = {row.key: row.gpu_s for row in book.reader.spent(0, by=("pool", "product"))}
        assert pools == {("", ""): 0.0, ("big", "H100"): 3 * 8 * 1500}
        with pytest.raises(ValueError, match="not by colour"):
            book.reader.spent(0, by=("colour",))


def test_days_of_a_week_ago_are_kept_as_days(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        book.take(event(0, "grouped"), event(0, "started", held=4))
        for day in range(1, 21):
            book.advance(day * DAY, longest_s=math.inf)
            book.journal.forget(START + day * DAY)
        spans = dict(book.journal._file.read("SELECT span_s, count(*) FROM spent GROUP BY 1"))
        starts = 1  # a row of its own
        assert spans[int(DAY)] == 12 + starts and spans[int(HOUR)] == 8 * 24
        (row,) = book.reader.spent(0)
        assert (row.gpu_s, row.started) == (4 * 20 * DAY, 1)
        (row,) = book.reader.spent(START + 2.5 * DAY, START + 4 * DAY)
        assert row.gpu_s == pytest.approx(4 * 1.5 * DAY)


def _with(one: JobEvent, **fields: str) -> JobEvent:
    import dataclasses

    return dataclasses.replace(one, **fields)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("a", "b", "c")),
        st.sampled_from(("started", "grew", "shrunk", "evicted", "resumed", "waits", "ended")),
        st.integers(0, 8),
        st.floats(0, 2 * HOUR),
    ),
    max_size=40,
)


@given(STEPS, st.integers(0, 3))
@settings(max_examples=25)
def test_whatever_happens_the_sums_are_those_of_the_steps(
    tmp_path_factory: pytest.TempPathFactory, steps: list, restart: int
) -> None:
    """Of jobs, of hours, and after restarts in between: all the same GPU seconds."""
    path = tmp_path_factory.mktemp("sums") / "h.sqlite"
    held: dict[str, float] = {}
    wanted: dict[str, float] = {}
    now, book = 0.0, Book(path)
    for number, (name, what, gpus, wait) in enumerate(steps):
        for key, amount in held.items():
            wanted[key] = wanted.get(key, 0.0) + amount * wait
        now += wait
        amount = 0.0 if what in ("evicted", "ended") else float(gpus)
        if what == "waits":
            amount = held.get(name, 0.0)
        held[name] = amount
        book.take(event(now, what, name, held=amount))
        if number % 4 == 3:
            book.advance(now)
        if restart and number % 7 == restart:
            book.advance(now)
            book.journal.close()
            book = Book(path, now)
    book.advance(now)
    rows = {row.name: row.held_gpu_s for row in book.reader.jobs()}
    assert rows == {name: pytest.approx(wanted.get(name, 0.0), abs=0.1) for name in held}
    spent = sum(row.gpu_s for row in book.reader.spent(0))
    assert spent == pytest.approx(sum(wanted.values()), rel=1e-6, abs=0.1)
    book.journal.close()


def test_what_is_found_after_a_restart_is_not_told_twice(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    told = life()[:4]
    with Book(path) as book:
        book.take(*told)
        book.advance(500)
    with Book(path, 600) as again:
        again.take(*(_with(e, replayed=True) for e in told))  # type: ignore[arg-type]
        again.take(event(1200, "evicted", reason="Reclaimed", replayed=True))
        again.advance(1300)
        whats = [e.what for e in again.reader.events("uid-train")]
        assert whats == ["created", "grouped", "waits", "started", "evicted"]
        job = again.reader.job("uid-train")
        assert job is not None and (job.starts, job.evictions) == (1, 1)
        assert job.held_gpu_s == pytest.approx(8 * 1100)


def test_a_job_that_went_while_nobody_looked_has_ended_when_it_was_last_seen(
    tmp_path: Path,
) -> None:
    path = tmp_path / "h.sqlite"
    with Book(path) as book:
        book.take(*life()[:4])
        book.advance(500)
    with Book(path, 9000) as again:
        assert again.journal.jobs.gone(set(), START + 9000, again.journal.counted_s) == 1
        again.advance(9000)
        job = again.reader.job("uid-train")
        assert job is not None
        assert (job.state, job.outcome, job.ended_s) == ("ended", "Deleted", START + 500)
        assert job.held_gpu_s == 8 * 400
        assert again.reader.events("uid-train")[-1].what == "ended"


def test_a_job_of_several_gangs_holds_what_all_of_them_hold(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        book.take(
            event(0, "grouped", group="left"),
            event(0, "grouped", group="right"),
            event(0, "started", group="left", held=2),
            event(0, "started", group="right", held=3),
            event(100, "evicted", group="left"),
            event(200, "ended", group="right", reason="Succeeded"),
        )
        book.advance(300)
        job = book.reader.job("uid-train")
        assert job is not None and job.held_gpu_s == 2 * 100 + 3 * 200
        groups = [e.group for e in book.reader.events("uid-train")]
        assert groups == ["left", "right", "left", "right", "left", "right"]


def test_jobs_are_found_by_time_queue_state_and_name(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        book.take(*life("old"), *life("late", 5000)[:4])
        book.take(*(_with(e, queue="other") for e in life("mid", 2000)))
        book.advance(6000)
        names = lambda **asked: [row.name for row in book.reader.jobs(**asked)]  # noqa: E731
        assert names() == ["late", "mid", "old"]
        assert names(since_s=START + 1700) == ["late", "mid"]
        assert names(until_s=START + 1000) == ["old"]
        assert names(queue="other") == ["mid"]
        assert names(state="running") == ["late"]
        assert names(user="nobody") == []
        assert names(limit=1) == ["late"] and names(limit=1, offset=1) == ["mid"]
        assert [r.uid for r in book.reader.find("research", "old")] == ["uid-old"]
        assert [r.uid for r in book.reader.find("research", "old", "pytorchjob")] == ["uid-old"]
        assert book.reader.find("research", "old", "RayJob") == []
        assert book.reader.job("uid-none") is None and book.reader.events("uid-none") == []
        since = book.reader.events_since(START + 5000, what=("started",))
        assert [(e.name, e.what) for e in since] == [("late", "started")]
        assert len(book.reader.events_since(0, limit=3)) == 3


def test_every_kind_of_event_has_a_number_that_stays() -> None:
    """The file keeps positions: a new word comes last, and none is moved or taken away."""
    assert WHAT[:15] == (
        "created", "grouped", "waits", "nominated", "started", "ready", "grew", "shrunk",
        "noticed", "evicted", "interrupted", "suspended", "resumed", "ended", "warned",
    )  # fmt: skip


def test_what_jobs_do_with_their_gpus_is_added_to_them_and_to_their_queue(tmp_path: Path) -> None:
    from kai_ray.history.job_book import Use

    with Book(tmp_path / "h.sqlite") as book:
        book.take(event(0, "grouped"), event(0, "started", held=4))
        book.journal.jobs.use({"uid-train": Use(4.0, 4.0, 1.0)}, START, START + 100)
        book.journal.jobs.use({"uid-train": Use(4.0, 2.0, 1.0)}, START + 100, START + 200)
        book.journal.jobs.keep_use(["uid-train", "uid-none"])
        book.advance(200)
        job = book.reader.job("uid-train")
        assert job is not None
        assert (job.held_gpu_s, job.known_gpu_s, job.used_gpu_s) == (800.0, 600.0, 200.0)
        (row,) = book.reader.spent(0)
        assert (row.gpu_s, row.known_gpu_s, row.used_gpu_s) == (800.0, 600.0, 200.0)


def test_a_long_list_of_nodes_is_kept_whole(tmp_path: Path) -> None:
    nodes = tuple(f"gpu-node-{i:04d}" for i in range(1000))
    with Book(tmp_path / "h.sqlite") as book:
        book.take(event(0, "grouped"), event(0, "started", held=8, nodes=nodes))
        book.advance(10)
        assert book.reader.events("uid-train")[-1].nodes == nodes


def test_old_jobs_and_figures_are_forgotten_and_what_lives_is_kept(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite") as book:
        book.take(*life("old"), *life("new", 29 * DAY), *life("eternal")[:4])
        book.advance(31 * DAY, longest_s=math.inf)
        book.journal.forget(START + 31 * DAY)
        assert {row.name for row in book.reader.jobs()} == {"new", "eternal"}
        assert book.reader.events("uid-old") == []
        assert len(book.reader.events("uid-new")) == 8
        hours = {row.gpu_s for row in book.reader.spent(START, START + DAY)}
        assert hours == set()


def test_a_file_that_grows_too_large_keeps_less_of_the_past(tmp_path: Path) -> None:
    with Book(tmp_path / "h.sqlite", most_bytes=1_000_000) as book:
        for number in range(2400):
            book.take(*life(f"job-{number:04d}", number * DAY / 100))
        book.advance(24 * DAY, longest_s=math.inf)
        book.journal.forget(START + 24 * DAY)
        book.journal.commit()
        about = book.reader.about()
        assert 0 < about.jobs < 2000
        assert about.bytes <= 1_500_000
        assert "too large" in about.notes[0][1]
        oldest = min(row.created_s for row in book.reader.jobs(limit=-1))
        assert oldest > START + 2 * DAY  # the youngest are those that stay


def test_ids_of_jobs_are_not_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    for turn, names in enumerate(("ab", "cd", "ef")):
        with Book(path, turn * 100) as book:
            for name in names:
                book.take(*life(name, turn * 100))
            book.advance(turn * 100 + 50)
    with Book(path, 900) as book:
        assert sorted(row.name for row in book.reader.jobs()) == list("abcdef")
        assert all(len(book.reader.events(f"uid-{name}")) == 8 for name in "abcdef")

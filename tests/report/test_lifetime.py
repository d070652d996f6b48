"""Events become stretches of time that follow one another without gaps."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.report.lifetime import Lifetime, lifetime, runs
from tests.report.events import START_S, event, life


def told(made: Lifetime) -> str:
    """`phase[:reason] seconds`, with commas."""
    return ", ".join(
        f"{s.phase}{':' + s.reason if s.reason else ''} {s.seconds:g}" for s in made.stretches
    )


def of(text: str, until: float) -> Lifetime:
    return lifetime(life(text), START_S + until)


@pytest.mark.parametrize(
    ("text", "until", "expected"),
    [
        ("created@0 grouped@1", 10, "waiting 10"),
        ("created@0 grouped@1 waits@3:NoRoom", 10, "waiting 3, waiting:NoRoom 7"),
        ("created@0 grouped@0 started@5 ready@7 ended@20:Succeeded", 20, "waiting 5, running 15"),
        ("created@0 started@5 ended@20:Failed", 60, "waiting 5, running 15, ended:Failed 40"),
        (
            "created@0 started@5 evicted@8:Reclaimed waits@9:NoRoom resumed@20",
            30,
            "waiting 5, running 3, waiting:Evicted 1, waiting:NoRoom 11, running 10",
        ),
        ("created@0 started@5 interrupted@8", 9, "waiting 5, running 3, waiting:Interrupted 1"),
        ("created@0 suspended@5 resumed@9", 10, "waiting 5, suspended 4, running 1"),
        # told again after a restart: nothing new
        (
            "created@0 started@5 created@0! grouped@0! started@5! ready@30",
            40,
            "waiting 5, running 35",
        ),
        (
            "created@0 started@5 evicted@8:Reclaimed grouped@0! evicted@8:Reclaimed! resumed@9",
            10,
            "waiting 5, running 3, waiting:Evicted 1, running 1",
        ),
        # a clock that went back
        ("created@10 started@20 ended@15:Succeeded", 20, "waiting 10"),
        # two gangs: it runs while one of them does
        (
            "created@0/a grouped@0/b started@5/a started@9/b ended@20/a:Succeeded",
            30,
            "waiting 5, running 4, running 11, running 10",
        ),
    ],
)
def test_a_life_in_stretches(text: str, until: float, expected: str) -> None:
    assert told(of(text, until)) == expected


def test_departures_are_counted_once_with_rule_and_for_whom() -> None:
    events = [
        event("created", 0),
        event("started", 5),
        event("evicted", 8, "Reclaimed", for_whom="RayJob default/owner"),
        event("evicted", 8, "Reclaimed", for_whom="RayJob default/owner", replayed=True),
        event("resumed", 20),
        event("interrupted", 30),
    ]
    made = lifetime(events, START_S + 40)
    assert [(d.rule, d.for_whom) for d in made.departures] == [
        ("Reclaimed", "RayJob default/owner"),
        ("Interrupted", ""),
    ]


def test_growth_and_shrinking_are_one_run() -> None:
    events = [
        event("started", 0, gpus=4.0),
        event("grew", 10, gpus=8.0),
        event("shrunk", 20, gpus=2.0),
    ]
    made = lifetime(events, START_S + 30)
    (run,) = runs(made.stretches)
    assert [(s.seconds, s.held) for s in run] == [(10, 4), (10, 8), (10, 2)]


def test_nothing_comes_of_nothing() -> None:
    assert lifetime([], START_S) == Lifetime()


_WHATS = ["created", "grouped", "waits", "nominated", "started", "ready", "grew", "shrunk"]
_WHATS += ["noticed", "evicted", "interrupted", "suspended", "resumed", "ended", "warned"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(_WHATS), st.integers(0, 50), st.sampled_from("ab"), st.booleans()
        ),
        max_size=30,
    ),
    st.integers(0, 60),
)
def test_whatever_happens_the_stretches_join(
    rows: list[tuple[str, int, str, bool]], until: int
) -> None:
    events = [event(w, at, "R", group, replayed=again) for w, at, group, again in rows]
    made = lifetime(events, START_S + until)
    for stretch in made.stretches:
        assert stretch.seconds > 0
        assert stretch.until_s <= START_S + until
        assert stretch.phase == "running" or stretch.held == 0
    for one, other in itertools.pairwise(made.stretches):
        assert one.until_s == other.since_s
        assert one != other

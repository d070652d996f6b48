"""What keys do, without a terminal: nobody gets lost, whatever is pressed."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.cli.top import draw, tables
from kai_ray.cli.top.draw import Look
from kai_ray.cli.top.keys import Keys
from kai_ray.cli.top.picture import Picture
from kai_ray.cli.top.screens import Around, Screen, State, cursor_of, press
from kai_ray.cluster.port import Object
from kai_ray.sight import node_list, queue_list
from kai_ray.sight.jobs import listing

ROWS = [("queue", "", name) for name in "abcde"]
KEYS = ["up", "down", "pgup", "pgdn", "home", "end", "enter", "esc", "tab", "backtab", "left"]
KEYS += ["right", "backspace", "1", "2", "3", "s", "d", "/", "?", "q", "x", "ö"]


def after(*keys: str, rows: list[tuple[str, str, str]] = ROWS, start: State | None = None) -> State:
    state = start or State()
    for key in keys:
        state = press(state, key, Around(rows, 50, 10))
    return state


@given(st.lists(st.sampled_from(KEYS)))
def test_one_always_gets_back_to_a_table_and_out(keys: list[str]) -> None:
    state = after(*keys)
    if not state.over:
        state = after(*["esc"] * (2 * len(state.stack) + 2), start=state)
        assert len(state.stack) == 1 and not state.typing and not state.screen.text
        assert after("q", start=state).over


@given(st.lists(st.sampled_from(KEYS)), st.integers(0, 5), st.integers(5, 200), st.integers(5, 60))
def test_every_screen_fits_the_terminal(
    keys: list[str], count: int, width: int, height: int
) -> None:
    look = Look(width, height)
    picture = Picture(0.0, queues=tuple(queue(name) for name in "abcde"[:count]))
    state = after(*keys, rows=ROWS[:count])
    now = state.screen
    text = draw.help_lines() if now.help else ["line"] * 50 if now.is_text else []
    rows = [] if now.is_text else tables.rows(picture, now.kind, text=now.text, order=now.order)
    lines = draw.screen(state, picture, rows, text, look, head="here")
    assert len(lines) == height
    assert all(line.cell_len <= width for line in lines)


@given(st.binary(max_size=60), st.integers(0, 60))
def test_keys_are_the_same_however_bytes_are_cut(data: bytes, at: int) -> None:
    whole, parts = Keys(), Keys()
    expected = whole.feed(data) + whole.flush()
    assert parts.feed(data[:at]) + parts.feed(data[at:]) + parts.flush() == expected


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"\x1b[A\x1b[6~x", ["up", "pgdn", "x"]),
        (b"\x1bOB\r", ["down", "enter"]),
        ("ö\t".encode(), ["ö", "tab"]),
        (b"\x1b[200;5uq", ["q"]),
        (b"\x1b\x1b[A", ["esc", "up"]),
        (b"\x00\x01q", ["q"]),
    ],
)
def test_what_terminals_send_is_known_by_name(data: bytes, names: list[str]) -> None:
    assert Keys().feed(data) == names


def test_an_escape_alone_is_a_key_once_nothing_follows() -> None:
    keys = Keys()
    assert keys.feed(b"\x1b") == [] and keys.waiting
    assert keys.flush() == ["esc"] and not keys.waiting


def test_the_selected_object_is_followed_and_a_gone_one_leaves_its_place() -> None:
    state = after("down", "down")
    assert state.screen.selected == ROWS[2]
    assert cursor_of(state.screen, [ROWS[2], *ROWS[:2]]) == 0
    assert cursor_of(state.screen, [ROWS[0], ROWS[1], ROWS[3]]) == 2
    assert cursor_of(state.screen, []) == 0


def test_words_typed_into_the_filter_are_no_commands() -> None:
    state = after("/", "q", "s", "1", "?")
    assert state.screen.text == "qs1?" and not state.over
    assert after("enter", "q", start=state).over


def test_a_queue_leads_to_the_jobs_of_those_below_it_too() -> None:
    picture = Picture(0.0, queues=(queue("top"), queue("low", "top"), queue("else")))
    assert picture.below("top") == {"top", "low"}
    state = after("enter", rows=[("queue", "", "top")])
    assert state.screen == Screen("jobs", queue="top")


def test_a_queue_counts_what_waits_below_it() -> None:
    jobs = listing.build(listing.World(groups=[group(i) for i in range(6)]))
    queues = (queue("top"), queue("mid", "top"), queue("team-1", "mid"), queue("team-2", "top"))
    waiting = Picture(0.0, queues, tuple(jobs)).waiting
    assert [waiting[name] for name in ("top", "mid", "team-1", "team-2")] == [2, 1, 1, 1]


def queue(name: str, parent: str = "") -> queue_list.Queue:
    spec: Object = {"resources": {"gpu": {"quota": 4, "limit": -1, "overQuotaWeight": 1}}}
    if parent:
        spec["parentQueue"] = parent
    return queue_list.queue({"metadata": {"name": name}, "spec": spec})


def test_what_users_write_cannot_move_the_cursor() -> None:
    evil = "\x1b[2J\x07\r\nx\u202e"
    rows = [tables.Row(("job", "a", "b"), (evil, *[""] * 11), None)]
    now = State((Screen("jobs"),))
    shown = draw.screen(now, Picture(0.0), rows, (), Look(80, 10), head="", problem=evil)
    told = State((Screen("jobs", about=("job", "a", "b")),))
    shown += draw.screen(told, Picture(0.0), [], [evil], Look(80, 10), head="")
    assert all(line.plain.isprintable() for line in shown)
    assert sum("[2J" in line.plain for line in shown) == 3


def test_ten_thousand_jobs_are_drawn_between_two_keys() -> None:
    jobs = listing.build(listing.World(groups=[group(i) for i in range(10_000)]))
    nodes = node_list.build([node(i) for i in range(1000)], [])
    picture = Picture(0.0, jobs=tuple(jobs), nodes=tuple(nodes))
    state = after("2", "s")
    begun = time.process_time()
    for kind in ("jobs", "nodes"):
        rows = tables.rows(picture, kind, order=1, text="1")
        assert len(rows) > 100
        draw.screen(state, picture, rows, (), Look(200, 60), head="")
        state = after("3")
    assert time.process_time() - begun < 1.5


def group(i: int) -> Object:
    return {
        "metadata": {
            "name": f"job-{i}",
            "namespace": "default",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"queue": f"team-{i % 30}", "minMember": 1},
    }


def node(i: int) -> Object:
    return {
        "metadata": {"name": f"node-{i}", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {},
        "status": {"allocatable": {"nvidia.com/gpu": "8", "pods": "110"}},
    }

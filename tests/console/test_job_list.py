"""The list of jobs: search, filters, order, and pages of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from .conftest import World, world_of


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Twelve jobs: `train-0` .. `train-9` of ada want 4 GPUs each, two of bob's want none."""
    with world_of() as made:
        made.queue("vision", quota=8)
        made.queue("robots", quota=8)
        for number in range(10):
            queue = "vision" if number % 2 else "robots"
            made.job(f"train-{number}", queue, gpus=4, user="ada", namespace=f"team-{number % 3}")
            made.run(2)
        for name in ("prepare", "report"):
            made.job(name, "robots", gpus=0, user="bob", runs_s=5)
        made.run(60)
        yield made


def names(world: World, query: str = "") -> list[str]:
    return [job["name"] for job in world.get(f"/jobs?{query}")["jobs"]]


def test_who_waits_comes_first_in_the_order_of_the_queue(world: World) -> None:
    jobs = world.get("/jobs")["jobs"]
    states = [job["state"] for job in jobs]
    assert states == ["Waiting"] * 6 + ["Running"] * 4 + ["Succeeded"] * 2
    positions = [job["position"] for job in jobs[:6]]
    assert positions == sorted(positions) and positions[0] == 1


def test_who_has_ended_ran_to_its_end_and_not_until_now(world: World) -> None:
    jobs = world.get("/jobs")["jobs"]
    assert {job["endedAt"] for job in jobs if job["state"] != "Succeeded"} == {""}
    for job in jobs[-2:]:
        ran = datetime.fromisoformat(job["endedAt"]) - datetime.fromisoformat(job["startedAt"])
        assert 4 <= ran.total_seconds() <= 8


def test_all_words_of_a_search_must_occur(world: World) -> None:
    assert set(names(world, "search=bob")) == {"prepare", "report"}
    assert set(names(world, "search=BOB+prep")) == {"prepare"}
    assert names(world, "search=bob+train") == []
    assert set(names(world, "search=train-1+team-1")) == {"train-1"}
    assert len(names(world, "search=waiting")) == 6


def test_filters_take_lists(world: World) -> None:
    assert len(names(world, "state=Running,Succeeded")) == 6
    assert len(names(world, "state=Running,Succeeded&user=bob")) == 2
    assert set(names(world, "queue=vision")) == {f"train-{n}" for n in (1, 3, 5, 7, 9)}
    assert len(names(world, "namespace=team-0,team-1")) == 7
    assert names(world, "kind=RayJob") == []


def test_facets_count_all_whatever_is_filtered(world: World) -> None:
    facets = world.get("/jobs?search=nothing-has-this")["facets"]
    assert facets["state"] == {"Running": 4, "Waiting": 6, "Succeeded": 2}
    assert facets["user"] == {"ada": 10, "bob": 2}
    assert facets["queue"] == {"robots": 7, "vision": 5}


@pytest.mark.parametrize(
    "column",
    ["name", "namespace", "queue", "kind", "user", "gpus", "priority", "age", "state", "reason"],
)
def test_every_column_sorts_both_ways(world: World, column: str) -> None:
    up = world.get(f"/jobs?sort={column}")["jobs"]
    down = world.get(f"/jobs?sort=-{column}")["jobs"]
    assert {job["name"] for job in up} == {job["name"] for job in down}
    if column in ("name", "namespace", "queue", "kind", "user", "gpus", "priority"):
        values = [job[column] for job in up]
        assert values == sorted(values)
        assert [job[column] for job in down] == values[::-1]
    if column == "age":
        assert up[0]["created"] == max(job["created"] for job in up)


def test_pages_are_cut_from_one_order(world: World) -> None:
    whole = names(world)
    pages = [names(world, f"offset={offset}&limit=5") for offset in (0, 5, 10, 15)]
    assert [name for page in pages for name in page] == whole
    seen = world.get("/jobs?offset=5&limit=5&user=ada")
    assert (seen["total"], seen["matched"], seen["offset"]) == (12, 10, 5)
    assert world.get("/jobs?limit=0")["jobs"] == []

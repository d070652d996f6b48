"""A gang that holds some of its minimum is made whole before anything new starts."""

from __future__ import annotations

import pytest

from tests.core.world import Job, Node, Pod, Queue, R, World


def torn(pods: int = 4, minimum: int = 3, held: int = 1, **more: object) -> Job:
    there = [Pod(state=R, node="n")] * held
    return Job("torn", [*there, *[Pod()] * (pods - held)], minimum, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("rival", [{"priority": 90}, {"queue": "other", "created": -1}])
def test_its_minimum_comes_before_whoever_is_first_by_the_order(rival: dict[str, object]) -> None:
    queues = [Queue("default", gpu_quota=0), Queue("other", gpu_quota=0)]
    first = Job("first", [Pod()] * 2, minimum=2, **rival)  # type: ignore[arg-type]
    out = World([Node("n", gpus=3)], [first, torn(queue="default")], queues).decide()
    assert sorted(out.bound) == ["torn-1", "torn-2"]


def test_what_it_wants_beyond_its_minimum_waits_its_turn() -> None:
    first = Job("first", priority=90)
    out = World([Node("n", gpus=4)], [first, torn()]).decide()
    assert sorted(out.bound) == ["first-0", "torn-1", "torn-2"]


def test_one_that_cannot_be_made_whole_holds_nobody_back() -> None:
    first = Job("first", [Pod()] * 2, minimum=2)
    out = World([Node("n", gpus=3)], [first, torn(minimum=4)]).decide()
    assert sorted(out.bound) == ["first-0", "first-1"]


def test_once_whole_it_is_no_longer_in_front_of_the_growth_of_others() -> None:
    older = Job("older", [Pod(state=R, node="n"), Pod()], minimum=1, created=-1)
    out = World([Node("n", gpus=4)], [older, torn(pods=3, minimum=2)]).decide()
    assert sorted(out.bound) == ["older-1", "torn-1"]

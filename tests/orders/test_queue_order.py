"""Which queue goes first: one table per rule, and that the rules together are an order."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_ray.scheduler.orders import queue_order
from kai_ray.scheduler.shares.row import Amounts, QueueRow

NONE: Amounts = (0.0, 0.0, 0.0)
FREE: Amounts = (-1.0, -1.0, -1.0)
TOTAL: Amounts = (1000.0, 1000.0, 100.0)


def gpus(amount: float) -> Amounts:
    return (0.0, 0.0, amount)


def row(**fields: object) -> QueueRow:
    """A queue with unlimited CPU and memory unless said otherwise."""
    start = {
        "queue": 0,
        "parent": -1,
        "priority": 100,
        "created_s": 0.0,
        "rank": 0,
        "quota": FREE,
        "limit": FREE,
        "fair_share": FREE,
        "allocatable": (-1.0, -1.0, 10.0),
    }
    return QueueRow(**{**start, **fields})  # type: ignore[arg-type]


def first(left: QueueRow, right: QueueRow, needs: tuple[Amounts, Amounts] = (NONE, NONE)) -> str:
    decided = queue_order.compare(left, right, needs[0], needs[1], TOTAL)
    assert queue_order.compare(right, left, needs[1], needs[0], TOTAL) == -decided
    return "left" if decided < 0 else "right"


def test_over_its_share_means_in_all_three_resources() -> None:
    over = row(fair_share=(1.0, 1.0, 1.0), allocated=(2.0, 2.0, 2.0), priority=999)
    partly = row(fair_share=(1.0, 1.0, 1.0), allocated=(2.0, 2.0, 1.0))
    assert queue_order.over_utilised(over)
    assert not queue_order.over_utilised(partly)
    assert first(over, partly) == "right"


def test_a_queue_below_its_quota_goes_before_priority() -> None:
    rich = row(quota=(-1.0, -1.0, 2.0), allocated=gpus(2), priority=200)
    poor = row(quota=(-1.0, -1.0, 2.0), allocated=gpus(1))
    assert first(rich, poor, (gpus(1), gpus(1))) == "right"
    assert first(rich, poor, (gpus(1), gpus(2))) == "left"  # its gang would pass the quota


def test_priority_goes_before_shares() -> None:
    assert first(row(priority=101, quota=NONE, allocated=gpus(9)), row(quota=NONE)) == "right"
    both = {"quota": NONE, "allocated": gpus(1)}
    assert first(row(priority=101, **both), row(**both)) == "left"


def test_a_resource_without_share_counts_against_its_user() -> None:
    barred = row(quota=NONE, allocatable=gpus(0))
    assert first(barred, row(quota=NONE, rank=1), (gpus(1), gpus(5))) == "right"
    assert first(barred, row(quota=NONE, rank=1), (NONE, NONE)) == "left"


def test_the_smaller_dominant_share_goes_first_counted_with_the_gang() -> None:
    left = row(quota=NONE, allocated=gpus(4))
    right = row(quota=NONE, allocated=gpus(5), rank=1)
    assert first(left, right, (gpus(1), gpus(1))) == "left"
    assert first(left, right, (gpus(3), gpus(1))) == "right"
    # Equal with the gang: the one that holds less without it.
    assert first(left, right, (gpus(2), gpus(1))) == "left"


def test_an_unlimited_share_is_the_whole_cluster() -> None:
    boundless = row(quota=NONE, allocatable=FREE, allocated=gpus(9), rank=1)
    assert first(row(quota=NONE, allocated=gpus(1)), boundless, (NONE, NONE)) == "right"


def test_what_was_taken_from_a_queue_counts_as_given_back() -> None:
    left, right = row(quota=NONE, allocated=gpus(5)), row(quota=NONE, allocated=gpus(4), rank=1)
    decided = queue_order.compare(left, right, NONE, NONE, TOTAL, gpus(3), NONE)
    assert decided == -1
    assert queue_order.compare(left, right, NONE, NONE, TOTAL, NONE, gpus(3)) == 1


def test_the_smaller_share_then_the_older_then_the_name() -> None:
    small, large = row(rank=9), row(allocatable=(-1.0, -1.0, 20.0))
    assert first(small, large) == "left"
    mixed = row(allocatable=(5.0, -1.0, 20.0), rank=9, created_s=-1.0)
    assert queue_order.smaller_share(small, mixed) == 0  # neither is smaller throughout
    assert first(small, mixed) == "right"
    assert first(row(created_s=5.0), row(created_s=3.0, rank=1)) == "right"
    assert first(row(rank=2), row(rank=1)) == "right"


_amounts = st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 5.0])] * 3)
_bounds = st.tuples(*[st.sampled_from([-1.0, 0.0, 2.0, 5.0])] * 3)


@st.composite
def _rows(draw: st.DrawFn) -> list[tuple[QueueRow, Amounts]]:
    count = draw(st.integers(2, 5))
    return [
        (
            row(
                rank=i,
                priority=draw(st.sampled_from([1, 2])),
                created_s=draw(st.sampled_from([0.0, 1.0])),
                quota=draw(_bounds),
                fair_share=draw(_amounts),
                allocatable=draw(_bounds),
                allocated=draw(_amounts),
            ),
            draw(_amounts),
        )
        for i in range(count)
    ]


@settings(deadline=None)
@given(_rows())
def test_two_queues_are_never_both_first(rows: list[tuple[QueueRow, Amounts]]) -> None:
    for (left, need), (right, other) in itertools.combinations(rows, 2):
        one = queue_order.compare(left, right, need, other, TOTAL)
        assert one in (-1, 1)
        assert queue_order.compare(right, left, other, need, TOTAL) == -one


@settings(deadline=None)
@given(_rows())
def test_the_first_six_rules_are_a_sortable_tuple(rows: list[tuple[QueueRow, Amounts]]) -> None:
    values = [queue_order.standing(queue, need, TOTAL) for queue, need in rows]
    for (a, left), (b, right) in itertools.combinations(zip(values, rows, strict=True), 2):
        if a != b:
            assert queue_order.compare(left[0], right[0], left[1], right[1], TOTAL) == (
                -1 if a < b else 1
            )


@pytest.mark.parametrize("amount", [NONE, (1.0, 2.0, 3.0)])
def test_giving_back_restores_the_books(amount: Amounts) -> None:
    queue = row(allocated=(5.0, 5.0, 5.0), non_preemptible=(1.0, 1.0, 1.0))
    queue.charge(amount, firm=True, times=2)
    queue.charge(amount, firm=True, times=-2)
    assert queue.allocated == (5.0, 5.0, 5.0)
    assert queue.non_preemptible == (1.0, 1.0, 1.0)

"""Values fall into the bucket whose bound they do not pass."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kai_ray.metrics.histogram import Histogram, doubling

BOUNDS = doubling(5.0, 4)


def test_bounds_belong_to_their_own_bucket() -> None:
    kept = Histogram(BOUNDS)
    kept.add([0.0, 5.0, 5.1, 40.0, 41.0])
    assert kept.read().buckets == [("5", 2), ("10", 3), ("20", 3), ("40", 4), ("+Inf", 5)]


def test_what_a_clock_that_was_set_back_makes_negative_counts_as_nothing() -> None:
    kept = Histogram(BOUNDS)
    kept.add([-3.0, 1.0])
    assert kept.read().total == 1.0
    assert kept.read().buckets[0] == ("5", 2)


@given(st.lists(st.lists(st.floats(0, 1e6), max_size=8), max_size=8))
def test_it_matters_not_in_how_many_steps_values_come(steps: list[list[float]]) -> None:
    stepwise, at_once = Histogram(BOUNDS), Histogram(BOUNDS)
    for values in steps:
        stepwise.add(values)
    at_once.add(np.array([value for values in steps for value in values]))
    assert stepwise.read().buckets == at_once.read().buckets
    assert np.isclose(stepwise.read().total, at_once.read().total)


@given(st.lists(st.floats(0, 1e6)))
def test_buckets_only_grow_and_the_last_has_all(values: list[float]) -> None:
    kept = Histogram(BOUNDS)
    kept.add(values)
    counts = [count for _, count in kept.read().buckets]
    assert counts == sorted(counts) and counts[-1] == len(values)
    for bound, count in kept.read().buckets[:-1]:
        assert count == sum(value <= float(bound) for value in values)

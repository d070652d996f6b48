"""Dividing among siblings: the tables of the rule, then what holds for any queues at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_ray.scheduler.shares.fair_share import allocatable_share, fair_share
from kai_ray.scheduler.snapshot import Queues

GPU = 2


def flat(rows: list[dict[str, float]]) -> tuple[Queues, np.ndarray]:
    """Sibling queues in order of creation and name; GPUs only. Returns them and their demand."""
    n = len(rows)

    def amounts(field: str, default: float) -> np.ndarray:
        out = np.zeros((3, n))
        out[GPU] = [row.get(field, default) for row in rows]
        return out

    queues = Queues(
        parent=np.full(n, -1, np.int32),
        priority=np.array([row.get("priority", 100) for row in rows], np.int32),
        created_s=np.array([row.get("created", 0.0) for row in rows]),
        rank=np.arange(n, dtype=np.int32),
        quota=amounts("quota", 0),
        limit=amounts("limit", -1),
        weight=amounts("weight", 1),
        usage=amounts("usage", 0),
        paused=np.zeros(n, bool),
    )
    return queues, amounts("asks", 0)


def divide(total: float, rows: list[dict[str, float]], k: float = 1.0) -> list[float]:
    queues, asks = flat(rows)
    return fair_share(queues, np.array([0.0, 0.0, total]), asks, k)[GPU].tolist()


def q(quota: float, weight: float, asks: float, **more: float) -> dict[str, float]:
    return {"quota": quota, "weight": weight, "asks": asks, **more}


@pytest.mark.parametrize(
    ("total", "rows", "shares"),
    [
        pytest.param(15, [q(2, 2, 6), q(2, 2, 6)], [6, 6], id="enough for all"),
        pytest.param(8, [q(2, 1, 6), q(2, 3, 6)], [3, 5], id="surplus by weight"),
        pytest.param(12, [q(2, 2, 6, limit=5), q(2, 2, 6)], [5, 6], id="a limit cuts"),
        pytest.param(11, [q(2, 2, 6, created=1), q(2, 2, 6)], [5, 6], id="the older gets the rest"),
        pytest.param(4, [q(2, 2, 6), q(2, 2, 6, priority=200)], [2, 2], id="quota before priority"),
        pytest.param(
            6, [q(2, 9, 6), q(2, 1, 6, priority=200)], [2, 4], id="priority takes surplus"
        ),
        pytest.param(
            45,
            [q(12, 12, 32.55), q(7, 7, 9.5), q(2, 2, 1.65, limit=2)],
            [32.55, 9.5, 1.65],
            id="demand with fractions",
        ),
        pytest.param(10, [q(0, 1, 10)] * 3, [4, 3, 3], id="one unit of what rounding left"),
        pytest.param(10, [q(0, 1, 1), q(0, 1, 10), q(0, 1, 10)], [1, 5, 4], id="a second round"),
        pytest.param(8, [q(6, 1, 8), q(6, 1, 8)], [6, 6], id="quotas are never scaled"),
        pytest.param(10, [q(2, 0, 10), q(2, 1, 4)], [2, 4], id="no weight, no surplus"),
        pytest.param(1, [q(0, 1, 0.9), q(0, 1, 0.6)], [1, 0], id="a remainder may exceed demand"),
        pytest.param(10, [q(-1, 1, 4), q(2, 1, 10)], [4, 6], id="an unlimited quota"),
        pytest.param(9, [q(0, -1, 9)], [9], id="a negative weight alone counts as any other"),
        pytest.param(9, [q(0, -1, 9), q(0, 1, 9)], [0, 0], id="weights that cancel give nothing"),
        pytest.param(0, [q(0, 1, 5)], [0], id="nothing to divide"),
    ],
)
def test_division(total: float, rows: list[dict[str, float]], shares: list[float]) -> None:
    assert divide(total, rows) == shares


@pytest.mark.parametrize(
    ("used", "k", "shares"),
    [
        ((0.0, 0.0), 1.0, [8, 8]),
        ((0.25, 0.0), 1.0, [7, 9]),
        ((0.5, 0.0), 1.0, [5, 11]),
        ((0.75, 0.0), 1.0, [3, 13]),
        ((1.0, 0.0), 1.0, [0, 16]),
        ((1.2, 1.1), 1.0, [0, 0]),
        ((0.3, 0.1), 2.0, [7, 9]),
        ((0.9, 0.0), -3.0, [8, 8]),
    ],
)
def test_those_who_used_more_lately_get_less(
    used: tuple[float, float], k: float, shares: list[float]
) -> None:
    assert divide(16, [q(0, 1, 16, usage=used[0]), q(0, 1, 16, usage=used[1])], k) == shares


def test_children_divide_what_their_parent_got() -> None:
    #    0 (quota 4)      1 (quota 4)       parents of 2, 3 and of 4
    parent = [-1, -1, 0, 0, 1]
    queues, _ = flat([q(4, 1, 0), q(4, 1, 0), q(0, 1, 0), q(0, 3, 0), q(0, 1, 0)])
    queues = Queues(
        **{f: getattr(queues, f) for f in Queues.__slots__ if f != "parent"},
        parent=np.array(parent, np.int32),
    )
    asks = np.zeros((3, 5))
    asks[GPU] = [20, 2, 10, 10, 2]
    share = fair_share(queues, np.array([0.0, 0.0, 14.0]), asks)
    assert share[GPU].tolist() == [12, 2, 3, 9, 2]


def test_a_queue_may_hold_its_quota_or_share_up_to_its_limit() -> None:
    queues, _ = flat([q(4, 1, 0), q(4, 1, 0, limit=3), q(-1, 1, 0), q(-1, 1, 0, limit=9)])
    share = np.zeros((3, 4))
    share[GPU] = [6, 6, 6, 6]
    assert allocatable_share(queues, share)[GPU].tolist() == [6, 3, -1, 9]


def test_a_cycle_of_parents_is_named() -> None:
    queues, asks = flat([q(1, 1, 1), q(1, 1, 1)])
    queues.parent[:] = [1, 0]
    with pytest.raises(ValueError, match=r"queues\.parent"):
        fair_share(queues, np.array([0.0, 0.0, 4.0]), asks)


# ---- what holds for any queues

_amount = st.one_of(st.integers(0, 60).map(float), st.floats(0, 60).map(lambda x: round(x, 2)))
_queue = st.fixed_dictionaries(
    {
        "quota": _amount,
        "weight": st.integers(0, 9).map(float),
        "asks": _amount,
        "limit": st.one_of(st.just(-1.0), _amount),
        "priority": st.sampled_from([50, 100, 200]),
        "created": st.integers(0, 3).map(float),
    }
)
_queues = st.lists(_queue, min_size=1, max_size=8)


def wanted(row: dict[str, float]) -> float:
    """Demand within the limit."""
    return row["asks"] if row["limit"] == -1 else min(row["asks"], row["limit"])


@settings(deadline=None)
@given(_queues, _amount)
def test_no_more_is_given_than_there_is_where_quotas_fit(
    rows: list[dict[str, float]], spare: float
) -> None:
    total = sum(row["quota"] for row in rows) + spare
    assert sum(divide(total, rows)) <= total + 1e-9


@settings(deadline=None)
@given(_queues, _amount)
def test_every_queue_gets_its_quota_as_far_as_it_asks(
    rows: list[dict[str, float]], total: float
) -> None:
    shares = divide(total, rows)
    for row, share in zip(rows, shares, strict=True):
        assert share >= min(row["quota"], wanted(row)) - 1e-9
        assert share <= wanted(row) + 1.0  # a remainder unit may exceed what is asked


@settings(deadline=None)
@given(_queues, _amount, st.floats(0, 5))
def test_k_changes_nothing_without_usage(
    rows: list[dict[str, float]], total: float, k: float
) -> None:
    assert divide(total, rows, k) == pytest.approx(divide(total, rows, 0.0), abs=1.0)
    whole = [{**row, "weight": 1.0, "priority": 100} for row in rows]
    if len(rows) in (1, 2, 4, 8):  # parts that are exact in binary
        assert divide(total, whole, 1.0) == divide(total, whole, 0.0)


@settings(deadline=None)
@given(_queues, _amount, st.data())
def test_more_weight_never_gives_less(
    rows: list[dict[str, float]], total: float, data: st.DataObject
) -> None:
    i = data.draw(st.integers(0, len(rows) - 1))
    more = [dict(row) for row in rows]
    more[i]["weight"] += data.draw(st.integers(1, 9))
    # One unit of a remainder may move to another queue.
    assert divide(total, more)[i] >= divide(total, rows)[i] - 1.0


@settings(deadline=None)
@given(_queues, _amount, st.randoms(use_true_random=False))
def test_the_order_of_rows_decides_nothing(
    rows: list[dict[str, float]], total: float, random: object
) -> None:
    rows = [{**row, "created": float(i)} for i, row in enumerate(rows)]
    mixed = list(rows)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    given_ = dict(zip([row["created"] for row in mixed], divide(total, mixed), strict=True))
    assert [given_[float(i)] for i in range(len(rows))] == divide(total, rows)

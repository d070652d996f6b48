"""`decide` looks at what it is given first: malformed arrays are refused with field and mend."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_ray.scheduler import Plan, decide
from kai_ray.scheduler.snapshot import Reserve, Snapshot
from kai_ray.scheduler.validate import SnapshotError
from tests.core.strategies import worlds
from tests.core.world import Job, Node, Pod, World, running

_TABLES = ("nodes", "queues", "gangs", "subgroups", "tasks", "classes")
_ODD = [-(2**31), -1000, -3, -2, -1, 0, 1, 2, 5, 100, 10_000, 2**31 - 1]
_ODD_FLOATS = [float("nan"), float("inf"), -1.0, -0.5, 0.0, 1e300, 2.0**63]


def small() -> Snapshot:
    jobs = [Job("runs", [running("n")]), Job("waits", [Pod(gpus=2)])]
    return World([Node("n", gpus=4)], jobs).snapshot()


def columns(table: Any) -> list[str]:
    return [
        f.name for f in dataclasses.fields(table) if isinstance(getattr(table, f.name), np.ndarray)
    ]


@settings(max_examples=200, deadline=None)
@given(worlds(), st.data())
def test_whatever_stands_in_a_column_decide_answers_or_names_the_field(
    world: World, data: st.DataObject
) -> None:
    snapshot = world.snapshot()
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(_TABLES))
        table = getattr(snapshot, name)
        field = data.draw(st.sampled_from(columns(table)))
        column = getattr(table, field).copy()
        if not column.size:
            continue
        at = data.draw(st.integers(0, column.size - 1))
        column.flat[at] = _odd(column.dtype, data)
        snapshot = dataclasses.replace(
            snapshot, **{name: dataclasses.replace(table, **{field: column})}
        )
    try:
        assert isinstance(decide(snapshot), Plan)
    except SnapshotError as error:
        assert all(":" in problem and ";" in problem for problem in error.problems)


def _odd(dtype: np.dtype[Any], data: st.DataObject) -> Any:
    if dtype == np.bool_:
        return data.draw(st.booleans())
    if dtype == np.float64:
        return data.draw(st.sampled_from(_ODD_FLOATS))
    info = np.iinfo(dtype)
    return min(max(data.draw(st.sampled_from(_ODD)), info.min), info.max)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"now_s": float("nan")}, "now_s"),
        ({"total": np.full(3, -1.0)}, "total"),
        ({"total": np.zeros(2)}, "total"),
        ({"resources": ("cpu",)}, "resources"),
        ({"reserves": (Reserve(7, 4),)}, "reserves.queue"),
        ({"reserves": (Reserve(0, 4, 0),)}, "reserves"),
        ({"reserves": (Reserve(0, 4), Reserve(0, 2))}, "reserves"),
        ({"kept": np.zeros((1, 1), dtype=np.int64)}, "kept"),
        ({"coming": np.zeros((3, 99))}, "coming"),
        ({"coming": np.full((3, 1), np.nan)}, "coming"),
    ],
)
def test_a_field_that_is_wrong_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(SnapshotError) as refused:
        decide(dataclasses.replace(small(), **change))
    assert any(problem.startswith(f"{field}:") for problem in refused.value.problems)

"""A malformed snapshot is refused with the name of the field and what mends it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kai_ray.scheduler.snapshot import (
    Classes,
    ClassRules,
    Gangs,
    Nodes,
    Op,
    PeerTerm,
    Queues,
    Requirement,
    Snapshot,
    Spread,
    SubGroups,
    Tasks,
)
from kai_ray.scheduler.validate import SnapshotError


def codes(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def small() -> Snapshot:
    """Two nodes, a parent and a leaf queue, one gang of two pods beside a foreign pod."""
    return Snapshot(
        now_s=1.0,
        seed=0,
        resources=("cpu", "memory", "gpu", "pods"),
        nodes=Nodes(
            allocatable=np.full((4, 2), 8, np.int64),
            rank=codes(0, 1),
            ready=np.ones(2, bool),
            cordoned=np.zeros(2, bool),
            label_value=np.zeros((1, 2), np.int32),
            label_number=np.zeros((1, 2), np.int64),
            taints=np.zeros((0, 2), bool),
            soft_taints=np.zeros((0, 2), bool),
            domain=np.zeros((1, 2), np.int32),
        ),
        queues=Queues(
            parent=codes(-1, 0),
            priority=codes(100, 100),
            created_s=np.zeros(2),
            rank=codes(0, 1),
            quota=np.full((3, 2), -1.0),
            limit=np.full((3, 2), -1.0),
            weight=np.full((3, 2), -1.0),
            usage=np.zeros((3, 2)),
            paused=np.zeros(2, bool),
        ),
        gangs=Gangs(
            queue=codes(1),
            priority=codes(50),
            preemptible=np.ones(1, bool),
            created_s=np.zeros(1),
            rank=codes(0),
            root=codes(0),
            started=np.zeros(1, bool),
            last_start_s=np.array([np.nan]),
        ),
        subgroups=SubGroups(
            gang=codes(0, 0),
            parent=codes(-1, 0),
            leaf=np.array([False, True]),
            minimum=codes(1, 2),
            rank=codes(0, 0),
        ),
        tasks=Tasks(
            gang=codes(0, 0, -1),
            leaf=codes(1, 1, -1),
            klass=codes(0, 0, 0),
            state=np.array([0, 4, 4], np.int8),
            node=codes(-1, 0, 1),
            role=np.ones(3, np.int8),
            task_priority=np.zeros(3, np.int64),
            created_s=np.zeros(3),
            rank=codes(0, 1, 2),
            nominated=codes(-1, -1, -1),
        ),
        classes=Classes(
            request=np.ones((4, 1), np.int64),
            queue_request=np.ones((3, 1)),
            rules=(ClassRules(),),
        ),
        peers=(PeerTerm(0, np.ones(1, bool)),),
        total=np.full(3, 16.0),
    )


def put(table: str, field: str, place: Any, value: Any) -> Callable[[Snapshot], Snapshot]:
    """A change of one entry."""

    def change(snapshot: Snapshot) -> Snapshot:
        owner = getattr(snapshot, table)
        array = np.array(getattr(owner, field))
        array[place] = value
        return replace(snapshot, **{table: replace(owner, **{field: array})})

    return change


def whole(table: str, field: str, value: Any) -> Callable[[Snapshot], Snapshot]:
    """A change of one field."""
    return lambda s: replace(s, **{table: replace(getattr(s, table), **{field: value})})


def rules(**fields: Any) -> Callable[[Snapshot], Snapshot]:
    return whole("classes", "rules", (ClassRules(**fields),))


_EXISTS = Requirement(4, Op.EXISTS)


def test_a_sound_snapshot_passes() -> None:
    small().validate()


@pytest.mark.parametrize(
    ("change", "field", "mend"),
    [
        (put("queues", "quota", (2, 1), np.nan), r"queues\.quota: row 2, 1 is nan", "-1 for unlim"),
        (put("queues", "limit", (0, 0), 2.0**64), r"queues\.limit: row 0, 0", r"2\^63 - 1"),
        (put("queues", "quota", (1, 1), -2.0), r"queues\.quota: row 1, 1 is -2", "-1 for unlim"),
        (put("queues", "limit", (1, 1), np.inf), r"queues\.limit: .* is inf", "give a number"),
        (put("queues", "weight", (1, 1), np.nan), r"queues\.weight", "finite"),
        (put("queues", "usage", (1, 1), -1.0), r"queues\.usage", "give a number from 0"),
        (put("queues", "parent", 0, 1), r"queues\.parent: row 0 is 1", "cycle of parents"),
        (put("queues", "parent", 1, 7), r"queues\.parent: row 1 is 7", "below 2, or -1"),
        (put("queues", "rank", 1, 0), r"queues\.rank: rows 0 and 1 are equal", "names in order"),
        (put("nodes", "rank", 1, 0), r"nodes\.rank: rows 0 and 1", "names in order"),
        (put("nodes", "allocatable", (2, 1), -1), r"nodes\.allocatable: row 2, 1 is -1", "0 or"),
        (whole("nodes", "ready", np.ones(3, bool)), r"nodes\.ready: has shape \[3\]", "= \\[2\\]"),
        (whole("nodes", "rank", np.arange(2.0)), r"nodes\.rank: holds float64", "give int32"),
        (put("gangs", "queue", 0, 2), r"gangs\.queue: row 0 is 2", "row number below 2"),
        (put("gangs", "root", 0, 1), r"gangs\.root", "no parent"),
        (put("gangs", "created_s", 0, np.nan), r"gangs\.created_s", "finite"),
        (put("subgroups", "minimum", 1, -1), r"subgroups\.minimum: row 1 is -1", "0 or more"),
        (put("subgroups", "parent", 1, 1), r"subgroups\.parent: row 1", "parents before"),
        (put("subgroups", "gang", 1, 7), r"subgroups\.gang: row 1 is 7", "row number below 1"),
        (put("tasks", "leaf", 0, 0), r"tasks\.leaf: row 0 is 0", "leaf of the task's gang"),
        (put("tasks", "leaf", 0, -1), r"tasks\.leaf: row 0 is -1", "leaf of the task's gang"),
        (put("tasks", "klass", 2, 1), r"tasks\.klass: row 2 is 1", "row number below 1"),
        (put("tasks", "state", 2, 9), r"tasks\.state: row 2 is 9", "row number below 9"),
        (put("tasks", "node", 1, 2), r"tasks\.node: row 1 is 2", "row number below 2"),
        (put("tasks", "node", 0, 1), r"tasks\.node: row 0 is 1", "-1 while the pod has no place"),
        (put("tasks", "rank", 2, 0), r"tasks\.rank: rows 0 and 2", "names in order"),
        (put("classes", "request", (0, 0), -1), r"classes\.request: row 0, 0", "0 or more"),
        (put("classes", "queue_request", (2, 0), np.nan), r"classes\.queue_request", "give a num"),
        (whole("classes", "rules", ()), r"classes\.rules: has 0 entries", "give 1"),
        (rules(affinity=(1,)), r"classes\.rules\[0\] peers: row 0 is 1", "below 1"),
        (rules(tolerates=(0,)), r"classes\.rules\[0\] tolerates", "below 0"),
        (rules(ports=(3,)), r"classes\.rules\[0\] ports", "below 0"),
        (rules(required=(((_EXISTS,),),)), r"classes\.rules\[0\] label keys: row 0", "below 1"),
        (rules(spread=(Spread(0, 0, True),)), r"classes\.rules\[0\]\.spread", "at least 1"),
        (lambda s: replace(s, resources=("a", "a", "b", "c")), "resources: is", "each once"),
        (lambda s: replace(s, total=np.full(3, -5.0)), "total: row 0 is -5", "from 0"),
        (lambda s: replace(s, peers=(PeerTerm(1, np.ones(1, bool)),)), r"peers\[0\]", "below 1"),
    ],
)  # fmt: skip
def test_what_is_malformed_is_named(
    change: Callable[[Snapshot], Snapshot], field: str, mend: str
) -> None:
    with pytest.raises(SnapshotError) as refused:
        change(small()).validate()
    first, *more = refused.value.problems
    assert re.match(field, first)
    assert re.search(mend, first)
    # Rows that name the wrong one break the promises of those that point to them.
    assert len(more) <= 3


def test_all_problems_are_told_at_once() -> None:
    bad = put("queues", "quota", (0, 0), np.nan)(small())
    bad = put("tasks", "klass", 0, 9)(bad)
    with pytest.raises(SnapshotError) as refused:
        bad.validate()
    assert len(refused.value.problems) == 2

"""What objects say about giving way, as columns; what they say badly, by name."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from kai_ray.admission.queues import quantity_causes
from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.encode import Encoded, Encoder
from kai_ray.encode.eviction_facts import Move, read_hold, write_hold
from kai_ray.scheduler.snapshot import GPU, TaskState
from tests.control import objects

_RESOURCE = {
    "Node": R.NODE,
    "Pod": R.POD,
    "PodGroup": R.POD_GROUP,
    "Queue": R.QUEUE,
    "PodDisruptionBudget": R.PDB,
}
NOW = 1_767_225_600.0  # 2026-01-01


def _encode(*made: Any) -> Encoded:
    encoder = Encoder()
    for obj in made:
        encoder.apply(_RESOURCE[obj["kind"]], None, obj)
    encoded = encoder.snapshot(NOW)
    encoded.snapshot.validate()
    return encoded


def _group(annotations: dict[str, str] | None = None, **spec: Any) -> Any:
    group = objects.podgroup("g", "team", 1, **spec)
    group["metadata"]["annotations"] = annotations or {}
    return group


def _world(*more: Any) -> tuple[Any, ...]:
    return (objects.node("n-0"), objects.node("n-1"), objects.queue("team"), *more)


def test_queues_state_minimum_runtimes() -> None:
    queues = _encode(
        objects.queue("a", preemptMinRuntime="90s", reclaimMinRuntime="0s"), objects.queue("b")
    ).snapshot.queues
    assert queues.preempt_min_runtime_s is not None and queues.reclaim_min_runtime_s is not None
    assert queues.preempt_min_runtime_s.tolist()[0] == 90
    assert queues.reclaim_min_runtime_s.tolist()[0] == 0
    assert np.isnan(queues.preempt_min_runtime_s[1])


@pytest.mark.parametrize("text", ["-1s", "soon", 5, ""])
def test_a_minimum_runtime_that_cannot_be_is_named(text: Any) -> None:
    queue = objects.queue("a", reclaimMinRuntime=text)
    (problem,) = _encode(queue).problems
    assert problem.field == "spec.reclaimMinRuntime"
    (cause,) = quantity_causes(queue)
    assert cause["field"] == "spec.reclaimMinRuntime"


def test_a_gang_states_delay_grace_and_times() -> None:
    notes = {
        L.STALE_SINCE: "2026-01-01T00:00:10Z",
        L.LAST_EVICTION: "2026-01-01T00:00:20Z",
        L.SUSPENDED_AT: "2026-01-01T00:00:25Z",
        L.CHECKPOINT_TIME: "2026-01-01T00:00:30Z",
        L.QUEUED_SINCE: "2025-12-31T00:00:00Z",
    }
    group = _group(notes, preemptionDelay="1m", stalenessGracePeriod="-1s")
    gangs = _encode(*_world(group)).snapshot.gangs
    assert [
        column.tolist()[0]
        for column in (
            gangs.stale_since_s,
            gangs.last_eviction_s,
            gangs.checkpoint_s,
            gangs.preemption_delay_s,
            gangs.staleness_grace_s,
            gangs.created_s,
        )
        if column is not None
    ] == [NOW + 10, NOW + 25, NOW + 30, 60, -1, NOW - 86400]


def test_gangs_that_say_nothing_leave_the_columns_out() -> None:
    gangs = _encode(*_world(_group())).snapshot.gangs
    assert gangs.preemption_delay_s is None
    assert gangs.core_safe is None
    assert gangs.hold_until_s is None


def test_the_minimum_of_a_semi_preemptible_gang_is_safe() -> None:
    group = _group()
    group["metadata"]["labels"] = {L.PREEMPTIBILITY: "semi-preemptible"}
    safe = _encode(*_world(group)).snapshot.gangs.core_safe
    assert safe is not None and safe.tolist() == [True]


def test_a_checkpoint_that_cannot_be_read_is_named_and_stops_nothing() -> None:
    encoded = _encode(*_world(_group({L.CHECKPOINT_TIME: "yesterday"}), objects.pod("p", "g")))
    (problem,) = encoded.problems
    assert L.CHECKPOINT_TIME in problem.field
    assert encoded.snapshot.gangs.checkpoint_s is None
    assert encoded.snapshot.tasks.state.tolist() == [TaskState.PENDING]


@pytest.mark.parametrize("text", ["soon", "-5s", ""])
def test_a_grace_that_cannot_be_read_is_named_and_its_queues_holds(text: str) -> None:
    encoded = _encode(*_world(_group({L.EVICTION_GRACE: text}), objects.pod("p", "g")))
    (problem,) = encoded.problems
    assert L.EVICTION_GRACE in problem.field
    assert encoded.snapshot.tasks.state.tolist() == [TaskState.PENDING]


def test_a_delay_that_cannot_be_read_starts_nothing() -> None:
    encoded = _encode(*_world(_group(preemptionDelay="soon"), objects.pod("p", "g")))
    (problem,) = encoded.problems
    assert problem.field == "spec.preemptionDelay"
    assert encoded.snapshot.tasks.state.tolist() == [TaskState.GATED]


def test_a_hold_nominates_its_pods() -> None:
    hold = write_hold("2026-01-01T00:01:00Z", {"p": "n-1", "gone": "n-0"}, ["v (Reclaimed)"])
    snapshot = _encode(*_world(_group({L.HOLD: hold}), objects.pod("p", "g"))).snapshot
    assert snapshot.tasks.nominated.tolist() == [1]
    assert snapshot.gangs.hold_until_s is not None
    assert snapshot.gangs.hold_until_s.tolist() == [NOW + 60]
    assert snapshot.gangs.moved is None


TIME = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", '{"until": 5}', json.dumps({"until": "x", "nodes": {}})),
        *(
            json.dumps({"until": TIME, "nodes": {}, "made": TIME, "moves": [move]})
            for move in (["n"], ["n", {}, [1, 2]], ["n", {}, [1, 2, -3]], ["n", {}, [0, 0, 0], 1])
        ),
    ],
)
def test_a_hold_that_cannot_be_read_is_none(text: str) -> None:
    assert read_hold(text) is None


def test_room_of_moved_pods_is_kept_until_they_are_made_again() -> None:
    moves = [
        Move("n-0", (("cpu", 1000), ("gpu", 3)), (1000.0, 0.0, 3.0)),
        Move("n-1", (("gpu", 2),), (0.0, 0.0, 2.0)),
    ]
    hold = write_hold("2026-01-01T00:01:00Z", {}, (), moves, "2026-01-01T00:00:00Z")
    group = _group({L.HOLD: hold})
    snapshot = _encode(*_world(group)).snapshot
    assert snapshot.kept is not None and snapshot.kept[GPU].tolist() == [3, 2]
    assert snapshot.coming is not None and snapshot.coming[:, 0].tolist() == [1000, 0, 5]
    pod = objects.pod("again", "g", gpus=3)
    snapshot = _encode(*_world(group, pod)).snapshot
    assert snapshot.kept is not None and snapshot.kept[GPU].tolist() == [0, 2]
    assert snapshot.tasks.nominated.tolist() == [0]
    assert snapshot.coming is not None and snapshot.coming[:, 0].tolist() == [0, 0, 2]
    assert snapshot.gangs.moved is not None and snapshot.gangs.moved.tolist() == [True]


def _budget(name: str, app: str, **more: Any) -> Any:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **more.pop("spec", {})},
        **more,
    }


def _running(count: int) -> list[Any]:
    return [
        objects.pod(f"p-{i}", "g", node="n-0", phase="Running", labels={"app": "web"})
        for i in range(count)
    ]


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"minAvailable": 3}, 1),
        ({"minAvailable": "50%"}, 2),
        ({"maxUnavailable": 1}, 1),
        ({"maxUnavailable": "25%"}, 1),
        ({"minAvailable": 9}, 0),
    ],
)
def test_a_budget_counts_what_may_go(spec: Any, allowed: int) -> None:
    snapshot = _encode(*_world(_group(), *_running(4), _budget("b", "web", spec=spec))).snapshot
    assert snapshot.disruptions == (allowed,)
    assert snapshot.tasks.budget is not None and snapshot.tasks.budget.tolist() == [0] * 4


def test_the_api_servers_own_count_is_believed_and_the_stricter_budget_counts() -> None:
    loose = _budget("a", "web", spec={"minAvailable": 1})
    strict = _budget(
        "b", "web", spec={"minAvailable": 1}, status={"disruptionsAllowed": 0, "expectedPods": 4}
    )
    snapshot = _encode(*_world(_group(), *_running(4), loose, strict)).snapshot
    assert snapshot.disruptions == (3, 0)
    assert snapshot.tasks.budget is not None and set(snapshot.tasks.budget.tolist()) == {1}


def test_a_budget_that_cannot_be_read_is_named_and_binds_nobody() -> None:
    budget = _budget("b", "web", spec={"minAvailable": "most"})
    encoded = _encode(*_world(_group(), *_running(2), budget))
    assert [p.field for p in encoded.problems] == ["spec.minAvailable"]
    assert encoded.snapshot.tasks.budget is None


def test_a_node_in_quarantine_takes_nothing() -> None:
    node = objects.node("n-0")
    node["metadata"]["annotations"] = {L.QUARANTINED_UNTIL: "2026-01-01T01:00:00Z"}
    assert _encode(node).snapshot.nodes.ready.tolist() == [False]

"""The core against the literal rules: on recorded cases and on clusters that nobody recorded."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance import rounds, scenario, scope
from tests.conformance.policies import decide
from tests.conformance.sequential import Sequential
from tests.conformance.verdict import Case
from tests.shared import shared_dir

#: What the literal rules leave out.
_LEFT_OUT = {"pvc", "fractional_gpu", "gpu_memory", "mig", "dra", "topology", "numa"}


def differences(case: Case) -> list[str]:
    """Tasks that the core leaves in another state than the literal rules do."""
    case = {**case, "run": {**case["run"], "actions": ["allocate"]}}
    ours = rounds.hold_session(case, scenario.start(case), decide(case)).state
    theirs = Sequential(case).run()
    return [f"{t}: {ours[t]}, by the rules {theirs[t]}" for t in ours if ours[t] != theirs[t]]


def test_on_recorded_cases() -> None:
    compared = 0
    for file in sorted(shared_dir("scenarios").glob("scheduler__*.jsonl")):
        for line in file.read_text().splitlines():
            case = json.loads(line)
            plain = not case["config"]["custom_plugins"] and not _LEFT_OUT & set(case["features"])
            if plain and scope.why_not(case) is None:
                compared += 1
                assert not differences(case), case["id"]
    assert compared > 80


# ---- clusters that nobody recorded

_small = st.integers(0, 3)
_quota = st.sampled_from([None, 0, 1, 2, 4])
_limit = st.sampled_from([None, None, None, None, 1, 3, 6])
_STATES = ["Pending"] * 6 + ["Running"] * 3 + ["Releasing"] * 2 + ["Gated", "StuckInReleasing"]
_STATES += ["Bound", "Succeeded", "Failed", "Unknown", "Deleted"]


@st.composite
def _bounds(draw: st.DrawFn, unit: float) -> dict[str, Any]:
    quota, limit = draw(_quota), draw(_limit)
    return {
        "quota": None if quota is None else quota * unit,
        "limit": None if limit is None else limit * unit,
        "over_quota_weight": draw(st.sampled_from([-1, 0, 1, 1, 2])),
    }


@st.composite
def _queues(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(1, 6))
    names = draw(st.permutations([f"q{i}" for i in range(count)]))
    return [
        {
            "name": names[i],
            "parent": draw(st.sampled_from([None, None, *names[:i]])) if i else None,
            "priority": draw(st.sampled_from([100, 100, 101])),
            "created_offset_seconds": draw(_small),
            "gpu": draw(_bounds(1)),
            "cpu_milli": draw(st.one_of(st.just(_FREE), _bounds(1000))),
            "memory_bytes": _FREE,
        }
        for i in range(count)
    ]


_FREE = {"quota": None, "limit": None, "over_quota_weight": 1}


@st.composite
def _tree(draw: st.DrawFn, name: str, depth: int) -> dict[str, Any]:
    leaves, sets = draw(st.integers(0, 2)), draw(st.integers(0, 2)) if depth else 0
    if leaves + sets == 0:
        leaves = 1
    group: dict[str, Any] = {
        "name": name,
        "pod_sets": [{"name": f"{name}l{i}", "min_available": draw(_small)} for i in range(leaves)],
        "groups": [draw(_tree(f"{name}s{i}", depth - 1)) for i in range(sets)],
    }
    least = draw(st.one_of(st.none(), st.integers(0, leaves + sets)))
    if least is not None:
        group["min_subgroup"] = least
    return group


def _leaf_names(group: dict[str, Any]) -> list[str]:
    inner = [name for child in group["groups"] for name in _leaf_names(child)]
    return [leaf["name"] for leaf in group["pod_sets"]] + inner


@st.composite
def _job(draw: st.DrawFn, name: str, queues: list[str], nodes: list[str]) -> dict[str, Any]:
    flat = {
        "name": "",
        "groups": [],
        "pod_sets": [{"name": "default", "min_available": draw(_small)}],
    }
    tree = draw(st.one_of(st.just(flat), st.just(flat), _tree("", 1)))
    leaves = _leaf_names(tree)
    gpus = draw(_small)
    states = draw(st.sampled_from([["Pending"], ["Pending", "Releasing"], _STATES]))
    tasks = [
        draw(_task(f"{name}-{i}", gpus, leaves, nodes, states))
        for i in range(draw(st.integers(1, 5)))
    ]
    return {
        "name": name,
        "namespace": "",
        "queue": draw(st.sampled_from([*queues * 4, "absent"])),
        "priority": draw(st.sampled_from([50, 50, 75])),
        "preemptible": draw(st.sampled_from([True, True, False])),
        "created_age_seconds": draw(_small),
        "last_start_age_seconds": None,
        "stale_seconds": None,
        "stays_deleted": False,
        "subgroups": tree,
        "tasks": tasks,
    }


_peer = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "match_labels": st.fixed_dictionaries({"app": st.sampled_from(["a", "b"])}),
            "topology_key": st.sampled_from(["kai.scheduler/type", "zone"]),
        }
    ),
)


@st.composite
def _task(
    draw: st.DrawFn, name: str, gpus: int, leaves: list[str], nodes: list[str], states: list[str]
) -> dict[str, Any]:
    status = draw(st.sampled_from(states))
    waits = status in ("Pending", "Gated", "Unknown", "Deleted")
    odd = draw(st.integers(0, 7)) == 0
    request = {
        "cpu_milli": draw(st.sampled_from([1000, 1000, 0, 2500])) if odd else 1000,
        "memory_bytes": 10**9,
        "gpu_kind": "whole" if gpus else "none",
        "gpus": draw(_small) if odd else gpus,
        "gpu_fraction": None,
        "gpu_memory_mib": None,
        "gpu_devices": None,
        "mig": {},
        "dra_gpus": {},
    }
    request["gpu_kind"] = "whole" if request["gpus"] else "none"
    return {
        "name": name,
        "subgroup": draw(st.sampled_from([*leaves * 6, "absent"])),
        "status": status,
        "node": None if waits else draw(st.sampled_from(nodes)),
        "order_priority": draw(st.sampled_from([None, None, None, 1, 2])),
        "request": request,
        "node_affinity_in": [draw(st.sampled_from([*nodes, "absent"]))] if odd else [],
        "pod_affinity": draw(_peer) if odd else None,
        "pod_anti_affinity": draw(_peer) if odd else None,
        "labels": {"app": draw(st.sampled_from(["a", "b"]))},
        "gpu_groups": [],
        "dra_claims": [],
        "legacy_mig": False,
    }


_zone = st.sampled_from([{}, {"zone": "z1"}, {"zone": "z2"}])


@st.composite
def _nodes(draw: st.DrawFn) -> list[dict[str, Any]]:
    names = draw(st.permutations([f"n{i}" for i in range(draw(st.integers(1, 4)))]))
    return [
        {
            "name": name,
            "labels": {"kai.scheduler/type": name} | draw(_zone),
            "allocatable": {
                "cpu_milli": draw(st.sampled_from([8000, 64000])),
                "memory_bytes": 10**11,
                "gpus": draw(st.sampled_from([0, 2, 4, 8])),
                "pods": draw(st.sampled_from([110, 110, 3])),
                "mig": {},
            },
            "gpu_memory_mib": 100,
            "gpu_memory_known": True,
            "mig_enabled": False,
            "mig_strategy": "none",
            "dra_gpus": 0,
        }
        for name in names
    ]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes, queues = draw(_nodes()), draw(_queues())
    on, under = [n["name"] for n in nodes], [q["name"] for q in queues]
    layout = draw(st.sampled_from(["binpack", "binpack", "spread"]))
    plugins = ["predicates", "proportion", "priority", "elastic", "taskorder"]
    plugins += ["nodeavailability", "resourcetype", "nodeplacement", "subgrouporder"]
    return {
        "id": "generated",
        "kind": "unit",
        "features": [],
        "run": {"actions": ["allocate"]},
        "config": {
            "plugins": [{"name": name, "arguments": {}} for name in plugins],
            "predicates_plugin_active": True,
            "node_placement": {"cpu": layout, "gpu": layout},
            "fair_share_k_value": 1.0,
            "min_node_gpu_memory_mib": 100,
            "max_node_gpu_memory_mib": 100,
            "max_consolidation_preemptees": 16,
            "allow_consolidating_reclaim": True,
            "reclaimer_saturation_multiplier": 1.0,
            "staleness_grace_period_seconds": 60.0,
        },
        "cluster": {
            "nodes": nodes,
            "queues": queues,
            "jobs": [draw(_job(f"j{i}", under, on)) for i in range(draw(st.integers(2, 8)))],
        },
    }


@settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(cases())
def test_on_clusters_that_nobody_recorded(case: Case) -> None:
    scenario.build(case, scenario.start(case)).snapshot.validate()
    assert not differences(case)


@settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(cases())
def test_what_was_left_waiting_would_wait_again(case: Case) -> None:
    """One session takes all that can be had, unless others leave or company arrives."""
    for job in case["cluster"]["jobs"]:
        for task in job["tasks"]:
            task["pod_affinity"] = None
            task["status"] = "Running" if task["status"] == "Releasing" else task["status"]
    first = rounds.hold_session(case, scenario.start(case), decide(case))
    again = rounds.hold_session(case, rounds.move_on(case, first.state), decide(case))
    assert again.calls == {"binds": 0, "evictions": 0, "pipelines": 0}

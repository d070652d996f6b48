"""Every kind, on every route to our scheduler: a gang that fits is bound whole, else not at all."""

from __future__ import annotations

import pytest

from kai_ray.cluster.port import Object
from tests.real.operators.fleet import Fleet
from tests.real.operators.kinds import FITS, TOO_BIG, Kind, table
from tests.real.operators.seen import all_bound, node_of
from tests.real.operators.workloads import QUEUE

ROWS = list(table())
IDS = [f"{kind.title} by {route}" for kind, route in ROWS]
pytestmark = pytest.mark.real


@pytest.mark.parametrize(("kind", "route"), ROWS, ids=IDS)
def test_a_gang_that_fits_is_bound_whole(submitted: Fleet, kind: Kind, route: str) -> None:
    name, _ = kind.workload(route, FITS)
    pods = submitted.seen.wait(route, name, all_bound(kind.pods), seconds=90)
    assert {p["metadata"]["name"] for p in pods if not node_of(p)} == set()
    assert len(pods) % kind.pods == 0 if kind.repeats else len(pods) == kind.pods
    queues = {g["spec"]["queue"] for g in submitted.pod_groups(route, name)}
    assert queues == {QUEUE}


@pytest.mark.parametrize(("kind", "route"), ROWS, ids=IDS)
def test_a_gang_that_does_not_fit_leaves_no_pod_bound(
    submitted: Fleet, kind: Kind, route: str
) -> None:
    name, _ = kind.workload(route, TOO_BIG)
    told = submitted.seen.wait(route, name, lambda pods: bool(pods) and all(map(is_told, pods)))
    assert told
    assert {p["metadata"]["name"]: node_of(p) for p in told if node_of(p)} == {}
    assert all(is_told(p) for p in told)


def is_told(pod: Object) -> bool:
    """The pod says that it cannot be scheduled, and why."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)

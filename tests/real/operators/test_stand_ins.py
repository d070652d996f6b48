"""The embedded cluster's stand-in operators make the pods that the real ones make, by field.

The same manifests go to both. What may differ is listed in tests/sim/likeness.py and below.
"""

from __future__ import annotations

import difflib
import json

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.real.operators.fleet import Fleet, resource_of
from tests.real.operators.kinds import FITS, FLAG, TEMPLATE, Kind, table
from tests.real.operators.seen import all_bound
from tests.sim.first_fit import FirstFit
from tests.sim.likeness import normal
from tests.sim.test_operator_pods import generated

#: Admission's route differs from the template's by the scheduler's name alone.
ROWS = [(kind, route) for kind, route in table() if route in (TEMPLATE, FLAG)]
IDS = [f"{kind.title} by {route}" for kind, route in ROWS]
#: Long enough for a first run of everything, a scheduled one included.
VIRTUAL_S = 30
pytestmark = pytest.mark.real


@pytest.mark.parametrize(("kind", "route"), ROWS, ids=IDS)
def test_the_same_pods(submitted: Fleet, kind: Kind, route: str) -> None:
    name, manifests = kind.workload(route, FITS)
    submitted.seen.wait(route, name, all_bound(kind.pods), seconds=90)
    real = submitted.seen.first(route, name)
    ours = stand_in_pods(route, name, manifests)
    wanted, made = comparable(real, kind), comparable(ours, kind)
    assert made == wanted, differences(wanted, made)


class FirstSeen:
    """Pods as they were made, in a cluster whose time jumps."""

    name = "first-seen"

    def __init__(self) -> None:
        self.pods: dict[str, Object] = {}

    def setup(self, runtime: Runtime) -> None:
        def look(old: Object | None, new: Object | None) -> None:
            if new is not None:
                self.pods.setdefault(new["metadata"]["uid"], new)

        runtime.informer(R.POD).on_change(look)

    def reconcile(self, key: str) -> float | None:
        return None


def stand_in_pods(namespace: str, name: str, manifests: list[Object]) -> list[Object]:
    flag = L.SCHEDULER_NAME if namespace == FLAG else ""
    pools = ClusterConfig.short("16x8").node_pools
    config = ClusterConfig(node_pools=pools, ray_batch_scheduler=flag)
    seen = FirstSeen()
    extra = [FirstFit(), seen]
    with EmbeddedCluster(config, VirtualClock(), scheduling=False, extra=extra) as cluster:
        cluster.client.create(R.NAMESPACE, {"metadata": {"name": namespace}})
        for manifest in manifests:
            meta = {"namespace": namespace, **manifest["metadata"]}
            cluster.client.create(resource_of(manifest), {**manifest, "metadata": meta})
        cluster.run_for(VIRTUAL_S)
        assert cluster.runtime.errors == 0 and cluster.refusals == []
    return [p for p in seen.pods.values() if p["metadata"]["name"].startswith(f"{name}-")]


def comparable(pods: list[Object], kind: Kind) -> list[str]:
    """The pods as text without generated names, sorted; of repeated gangs the distinct ones."""
    texts = [
        json.dumps(normal(_unscheduled(pod), generated(pod)), indent=1, sort_keys=True)
        for pod in pods
    ]
    return sorted(set(texts) if kind.repeats else texts)


def _unscheduled(pod: Object) -> Object:
    """Without what binding adds."""
    meta = pod["metadata"]
    notes = {k: v for k, v in (meta.get("annotations") or {}).items() if k != L.POD_GROUP}
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != L.SUBGROUP}
    return {**pod, "metadata": {**meta, "annotations": notes, "labels": labels}}


def differences(wanted: list[str], made: list[str]) -> str:
    """How many there are, and the lines in which pods that should be alike differ."""
    lines = [f"{len(made)} pods for {len(wanted)}"]
    for real, ours in zip(wanted, made, strict=False):
        lines += difflib.unified_diff(
            real.splitlines(), ours.splitlines(), "real", "stand-in", lineterm="", n=2
        )
    return "\n".join(lines)

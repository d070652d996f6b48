"""Every upstream sample on an embedded cluster large enough for it: starts, then ends or serves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object
from kai_ray.sim.embedded import EmbeddedCluster
from tests.e2e import outcomes, supplies
from tests.shared import find_shared, shared_dir

DAY_S = 86400.0


def samples() -> list[Path]:
    folder = find_shared()
    return sorted((folder / "manifests").rglob("*.yaml")) if folder else []


class Tally:
    """How many samples did what they should, and why the others are counted apart."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.apart: dict[str, str] = {}

    def text(self) -> str:
        total = len(self.done) + len(self.apart)
        lines = [f"{len(self.done)} of {total} sample files ran as they should"]
        reasons = sorted(set(self.apart.values()))
        for reason in reasons:
            names = [n for n, r in self.apart.items() if r == reason]
            lines.append(f"  {len(names)} apart, {reason}: {', '.join(names)}")
        return "\n".join(lines)


@pytest.fixture(scope="module")
def tally(request: pytest.FixtureRequest):
    found = Tally()
    yield found
    capture: Any = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        sys.stdout.write(f"\n{found.text()}\n")


@pytest.mark.parametrize("path", samples(), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_a_sample_starts_and_then_ends_or_serves(path: Path, tally: Tally) -> None:
    manifests = shared_dir("manifests")
    name = f"{path.parent.name}/{path.name}"
    docs = supplies.documents(path)
    with EmbeddedCluster(supplies.large_cluster(docs), VirtualClock()) as cluster:
        supplies.supply(cluster, docs, manifests)
        made = supplies.submit(cluster, docs)
        workloads = [o for o in made if outcomes.is_workload(o)]
        if not workloads:
            tally.apart[name] = "hold no workload"
            return
        for obj in workloads:
            _admit_as_kueue_would(cluster, obj)
        for obj in workloads:
            _see_through(cluster, obj)
        assert not cluster.kubelet.refused, "the scheduler gave out more than a node has"
        assert cluster.runtime.errors == 0 and not cluster.refusals
    tally.done.append(name)


def _admit_as_kueue_would(cluster: EmbeddedCluster, obj: Object) -> None:
    if obj["kind"] == "TrainJob" and obj["spec"].get("suspend"):
        meta = obj["metadata"]
        patch = {"spec": {"suspend": False}}
        cluster.client.patch(R.TRAIN_JOB, meta["name"], patch, meta["namespace"])


def _see_through(cluster: EmbeddedCluster, obj: Object) -> None:
    """Ready and gone when deleted, or ended by itself."""
    title = f"{obj['kind']} {obj['metadata']['name']}"
    if not outcomes.serves(obj):
        ended = cluster.run_until(lambda: outcomes.has_ended(cluster, obj), DAY_S)
        assert ended, (title, outcomes.waiting(cluster), outcomes.fresh(cluster, obj))
        return
    ready = cluster.run_until(lambda: outcomes.is_ready(cluster, obj), DAY_S)
    assert ready, (title, outcomes.waiting(cluster), outcomes.fresh(cluster, obj))
    resource = R.BY_KIND[obj["apiVersion"], obj["kind"]]
    meta = obj["metadata"]
    cluster.client.delete(resource, meta["name"], meta["namespace"])

    def gone() -> bool:
        return outcomes.fresh(cluster, obj) is None and not _pods_of(cluster, meta["name"])

    assert cluster.run_until(gone, DAY_S), (title, _pods_of(cluster, meta["name"]))


def _pods_of(cluster: EmbeddedCluster, workload: str) -> list[str]:
    return [
        p["metadata"]["name"]
        for p in cluster.client.list(R.POD).items
        if p["metadata"]["name"].startswith(workload)
    ]

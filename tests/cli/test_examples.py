"""Every example runs: on its own cluster in virtual time, and as the demonstration tells it."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object
from kai_ray.sdk import manifests
from kai_ray.sight.jobs import listing as view
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

from .conftest import EXAMPLES

WORKLOADS = sorted((EXAMPLES / "workloads").glob("*.yaml"))
SERVICES = {"RayCluster", "RayService"}


def cluster() -> EmbeddedCluster:
    return EmbeddedCluster(ClusterConfig.load(EXAMPLES / "cluster.yaml"), VirtualClock(1.8e9))


def submit(world: EmbeddedCluster, *files: Path) -> set[tuple[str, str]]:
    """Creates the objects; the (kind, name) of those whose queue label says that they run."""
    made: set[tuple[str, str]] = set()
    for document in manifests.read([str(f) for f in files]):
        obj: Object = copy.deepcopy(document.object)
        resource = R.BY_KIND[obj["apiVersion"], obj["kind"]]
        if resource.namespaced:
            obj["metadata"].setdefault("namespace", "default")
        world.store.create(resource, obj)
        if "kai.scheduler/queue" in (obj["metadata"].get("labels") or {}):
            made.add((obj["kind"], obj["metadata"]["name"]))
    return made


def settled(job: view.Job) -> bool:
    return job.status == ("Running" if job.kind in SERVICES else "Succeeded")


@pytest.mark.parametrize("file", WORKLOADS, ids=lambda f: f.stem)
def test_each_example_runs_to_its_end_by_itself(file: Path) -> None:
    with cluster() as world:
        submit(world, EXAMPLES / "queues.yaml")
        (wanted,) = submit(world, file)

        def done() -> bool:
            return any(
                (j.kind, j.name) == wanted and settled(j) for j in view.read(world.store, None)
            )

        ended = world.run_until(done, 300)
        assert ended, [j.document() for j in view.read(world.store, None)]


def test_all_examples_share_the_cluster_and_some_must_wait() -> None:
    with cluster() as world:
        submit(world, EXAMPLES / "queues.yaml")
        wanted = submit(world, *WORKLOADS)
        waited: set[str] = set()

        def done() -> bool:
            jobs = [j for j in view.read(world.store, None) if (j.kind, j.name) in wanted]
            waited.update(j.name for j in jobs if j.status == "Waiting" and j.reason)
            used = sum(j.gpus for j in jobs if j.status in ("Running", "Starting"))
            assert used <= 32
            return len(jobs) == len(wanted) and all(settled(j) for j in jobs)

        assert world.run_until(done, 300), [j.document() for j in view.read(world.store, None)]
        assert waited

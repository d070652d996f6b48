"""A job that names a rack by annotation, on a whole cluster: from YAML to running pods."""

from __future__ import annotations

from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.sim.cluster_file import ClusterConfig, NodePool
from kai_ray.sim.embedded import EmbeddedCluster
from tests.control import objects
from tests.topology.test_encode import topology


def cluster() -> EmbeddedCluster:
    pools = [
        NodePool(name=rack, count=2, gpus=2, labels={"cloud/zone": "z", "cloud/rack": rack})
        for rack in ("r1", "r2")
    ]
    return EmbeddedCluster(ClusterConfig(node_pools=pools), VirtualClock())


def job(name: str, pods: int, **notes: str) -> dict[str, Any]:
    asked = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {names.QUEUE: "team"},
            "annotations": {names.BATCH_MIN_MEMBER: str(pods), **notes},
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {
                "metadata": {"annotations": {"kai.scheduler/sim-run-time": "600s"}},
                "spec": {
                    "schedulerName": "kai-scheduler",
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i", "resources": asked}],
                },
            },
        },
    }


def racks(world: EmbeddedCluster) -> set[str]:
    label = {
        n["metadata"]["name"]: n["metadata"]["labels"]["cloud/rack"]
        for n in world.client.list(R.NODE).items
    }
    pods = world.client.list(R.POD, "default").items
    return {label[p["spec"]["nodeName"]] for p in pods if p["spec"].get("nodeName")}


def test_a_job_is_kept_inside_a_rack_by_kais_or_kueues_annotation() -> None:
    ours = {names.TOPOLOGY: "dc", names.TOPOLOGY_REQUIRED: "cloud/rack"}
    for notes in (ours, {names.KUEUE_TOPOLOGY_REQUIRED: "cloud/rack"}):
        with cluster() as world:
            world.client.create(R.QUEUE, objects.queue("team"))
            world.client.create(R.TOPOLOGY, topology())
            world.client.create(R.JOB, job("train", 4, **notes))
            world.run_until(lambda: False, 5.0)
            assert len(racks(world)) == 1


def test_a_level_that_does_not_exist_is_told_on_the_job() -> None:
    with cluster() as world:
        world.client.create(R.QUEUE, objects.queue("team"))
        world.client.create(R.TOPOLOGY, topology())
        notes = {names.TOPOLOGY: "dc", names.TOPOLOGY_REQUIRED: "row"}
        world.client.create(R.JOB, job("train", 4, **notes))
        world.run_until(lambda: False, 5.0)
        events = world.client.list(R.EVENT, "default").items
        told = [e["message"] for e in events if e["involvedObject"]["name"] == "train"]
        assert any("'row' is no level of Topology dc" in text for text in told), told
        assert racks(world) == set()

"""An embedded cluster whose nodes offer devices, and what its claims hold."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster

POD_RUNS = {"meanSeconds": 60}


def cluster(
    nodes: int = 2, gpus: int = 4, *, devices: list[Any] | None = None, **more: Any
) -> EmbeddedCluster:
    pool = {
        "name": "node",
        "count": nodes,
        "gpus": gpus,
        "devices": [{}] if devices is None else devices,
        "runTime": POD_RUNS,
        **more,
    }
    return EmbeddedCluster(ClusterConfig.of({"nodePools": [pool]}), VirtualClock())


def create(world: EmbeddedCluster, *objects: Object) -> None:
    for obj in objects:
        world.client.create(R.BY_KIND[obj["apiVersion"], obj["kind"]], obj)


def queue(name: str, gpus: int) -> Object:
    """A queue with a quota of GPUs that lends and borrows, and is not limited otherwise."""
    some = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {
            "resources": {
                "cpu": some,
                "memory": some,
                "gpu": {"quota": gpus, "limit": -1, "overQuotaWeight": 0},
            }
        },
    }


def placed(world: EmbeddedCluster) -> dict[str, str]:
    """Pods that have a node, and which."""
    return {
        p["metadata"]["name"]: p["spec"]["nodeName"]
        for p in world.client.list(R.POD).items
        if p["spec"].get("nodeName")
    }


def running(world: EmbeddedCluster) -> set[str]:
    return {
        p["metadata"]["name"]
        for p in world.client.list(R.POD).items
        if (p.get("status") or {}).get("phase") == "Running"
    }


def why(world: EmbeddedCluster, pod: str) -> str:
    """What the pod's condition says."""
    found = world.client.get(R.POD, pod, "default")
    return next(
        (
            str(c.get("message"))
            for c in (found.get("status") or {}).get("conditions") or ()
            if c["type"] == "PodScheduled" and c["status"] != "True"
        ),
        "",
    )


def held(world: EmbeddedCluster) -> dict[str, list[str]]:
    """Devices of each allocated claim, as pool/device."""
    found: dict[str, list[str]] = {}
    for claim in world.client.list(R.RESOURCE_CLAIM).items:
        results = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
        devices = [f"{r['pool']}/{r['device']}" for r in results.get("results") or ()]
        if devices:
            found[claim["metadata"]["name"]] = devices
    return found


def given_twice(world: EmbeddedCluster) -> list[str]:
    """Devices that two claims hold."""
    every = [d for devices in held(world).values() for d in devices]
    return sorted({d for d in every if every.count(d) > 1})

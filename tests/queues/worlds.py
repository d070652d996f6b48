"""What the tests of queues do with a world."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster import resources as kinds
from tests.control.world import World


def annotate(world: World, queue: str, values: dict[str, Any]) -> None:
    world.store.patch(kinds.QUEUE, queue, {"metadata": {"annotations": values}})


def at_work(world: World, seconds: float = 2.0) -> None:
    """Lets the scheduler place what fits; pods with a node run."""
    world.run(seconds)
    for pod in world.pods():
        if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
            status = {"status": {"phase": "Running"}}
            world.store.patch(
                kinds.POD, pod["metadata"]["name"], status, "default", subresource="status"
            )
    world.run(1.0)


def staying(world: World, prefix: str) -> list[str]:
    """Pods with a node that nobody has told to leave."""
    return [
        p["metadata"]["name"]
        for p in world.pods(prefix)
        if p["spec"].get("nodeName") and not p["metadata"].get("deletionTimestamp")
    ]

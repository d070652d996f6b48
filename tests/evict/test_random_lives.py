"""Random demand on whole clusters: evictions stop, serve somebody, and quotas are reached.

A failing seed is run alone with `pytest "tests/evict/test_random_lives.py::test_...[SEED]"`.
"""

from __future__ import annotations

import random

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.controllers.conditions import find

from .world import EvictWorld

SEEDS = range(12)


def _populate(world: EvictWorld, draw: random.Random) -> None:
    world.store.create(R.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 75})
    quotas = draw.choice([(8, 8, 0), (4, 4, 8), (6, 2, 2), (0, 0, 16)])
    for name, quota in zip("abc", quotas, strict=True):
        world.queue(name, quota)
    for i in range(draw.randint(6, 14)):
        queue, pods, gpus = draw.choice("abc"), draw.randint(1, 4), draw.choice((1, 2, 4))
        kind = draw.randrange(4)
        if kind == 0:
            world.torch(f"torch-{i}", queue, pods + 1, gpus)
        elif kind == 1:
            priority = draw.choice(("", "high"))
            low = draw.randint(1, pods)
            world.job(
                f"job-{i}", queue, pods, gpus, minimum=low, priority=priority, backoffLimit=99
            )
        elif kind == 2:
            world.ray_job(f"ray-{i}", queue, pods, gpus)
        else:
            world.deployment(f"web-{i}", queue, pods, gpus, labels={L.PRIORITY_CLASS: "train"})
        world.run(draw.choice((0.0, 1.0, 20.0)))


def _gpus(world: EvictWorld) -> int:
    """GPUs of pods that run; no node may hold more than it has."""
    held: dict[str, int] = {}
    for pod in world.pods():
        if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Running":
            for container in pod["spec"]["containers"]:
                asked = (container.get("resources") or {}).get("limits") or {}
                node = pod["spec"]["nodeName"]
                held[node] = held.get(node, 0) + int(asked.get(L.NVIDIA_GPU, 0))
    assert all(count <= 8 for count in held.values()), held
    return sum(held.values())


def _total(world: EvictWorld) -> int:
    return sum(count for *_, count in world.evictions())


def _served_in_vain(world: EvictWorld) -> list[str]:
    """Gangs for which others left and that never started."""
    served = {
        e["involvedObject"]["name"]
        for e in world.store.list(R.EVENT).items
        if e["reason"] == "VictimsEvicted" and e["involvedObject"]["kind"] == "PodGroup"
    }
    return sorted(
        g["metadata"]["name"]
        for g in world.groups()
        if g["metadata"]["name"] in served
        and L.LAST_START not in (g["metadata"].get("annotations") or {})
        and find(g, "Scheduled").get("status") != "True"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_evictions_stop_and_serve_somebody(seed: int) -> None:
    draw = random.Random(seed)
    with EvictWorld("2x8") as world:
        _populate(world, draw)
        world.run(300)
        settled = _total(world)
        world.run(900)
        assert _total(world) == settled, "nobody evicts anybody while demand stands still"
        assert not _served_in_vain(world)
        assert not [g for g in world.groups() if L.HOLD in _notes(g)], "no hold is left"
        assert _gpus(world) <= 16
        assert world.cluster.runtime.errors == 0
        assert not world.cluster.kubelet.refused


def _notes(group: dict) -> dict[str, str]:
    return group["metadata"].get("annotations") or {}

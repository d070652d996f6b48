"""Gangs are bound as a whole, each pod with one write, and nothing is written when idle."""

from __future__ import annotations

from collections import Counter

from kai_ray.cluster import resources as kinds

from .world import World


def test_a_gang_is_bound_as_a_whole() -> None:
    world = World(nodes=2)
    world.gang("train", 12)
    world.run()
    assert Counter(world.placed().values()) == {"node-0": 8, "node-1": 4}


def test_a_gang_that_does_not_fit_starts_no_pod_and_another_one_does() -> None:
    world = World(nodes=2)
    world.gang("large", 17)
    world.gang("small", 16)
    world.run()
    assert len(world.placed("small")) == 16
    assert not world.placed("large")


def test_it_starts_when_room_becomes_free() -> None:
    world = World(nodes=1)
    world.gang("first", 8)
    world.run()
    world.gang("second", 8)
    world.run()
    assert not world.placed("second")
    for pod in world.pods("first"):
        world.store.delete(kinds.POD, pod["metadata"]["name"], "default", grace_s=0)
    world.run()
    assert len(world.placed("second")) == 8


def test_an_idle_cluster_writes_nothing() -> None:
    world = World(nodes=1)
    world.gang("runs", 4)
    world.gang("waits", 8)
    world.run(30)
    before, cycles = world.writes(), world.control.loop.cycles
    world.run(600)
    assert world.writes() == before
    assert world.control.loop.cycles == cycles

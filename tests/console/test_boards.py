"""The boards, kept up by changes, say what a look at everything says."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import ApiError
from kai_ray.cluster.runtime import Runtime
from kai_ray.console.cluster import Cluster
from kai_ray.sight import node_list
from kai_ray.sight.jobs import listing

from .conftest import EXAMPLES, World, submit, world_of


def same(world: World) -> None:
    view = world.console.clusters.home.view()
    store = world.cluster.store
    told = [(row.job, row.shown.position) for row in view.jobs.rows()]
    read = listing.read(store, None)
    assert [job for job, _ in told] == [_without_position(job) for job in read]
    assert [position for _, position in told] == [job.position for job in read]
    assert [row.node for row in view.nodes.rows()] == node_list.read(store)
    for row in view.nodes.rows():
        assert sum(card.used for card in row.cards) == pytest.approx(row.node.used)


def _without_position(job: listing.Job) -> listing.Job:
    from dataclasses import replace

    return replace(job, position=None)


def test_of_every_kind_of_workload_from_start_to_end() -> None:
    with world_of("4x8") as world:
        submit(world, EXAMPLES / "queues.yaml", EXAMPLES / "workloads")
        for seconds in (0.5, 2, 5, 30, 600):
            world.run(seconds)
            same(world)


@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_while_jobs_come_go_and_are_suspended(seed: int) -> None:
    rng = random.Random(seed)
    with world_of() as world:
        world.queue("vision", quota=8)
        world.queue("robots")
        for number in range(12):
            _act(world, rng, number)
            world.run(rng.choice((0.2, 1, 10, 60)))
            if rng.random() < 0.5:
                same(world)
        same(world)


_ACTS = ("new",) * 3 + ("suspend", "resume", "delete", "priority", "node", "regroup")


def _act(world: World, rng: random.Random, number: int) -> None:
    store = world.cluster.store
    jobs = [j["metadata"]["name"] for j in store.list(R.JOB).items]
    queue = rng.choice(("vision", "robots"))
    match rng.choice(
        ("new", "new", "new", "suspend", "resume", "delete", "priority", "node", "regroup")
    ):
        case "suspend" | "resume" as what if jobs:
            change = {"spec": {"suspend": what == "suspend"}}
            store.patch(R.JOB, rng.choice(jobs), change, "default")
        case "delete" if jobs:
            store.delete(R.JOB, rng.choice(jobs), "default")
        case "priority":
            name = "build"
            try:
                store.delete(R.PRIORITY_CLASS, name)
            except ApiError:
                return
        case "regroup":
            for group in store.list(R.POD_GROUP, "default").items:
                store.delete(R.POD_GROUP, group["metadata"]["name"], "default")
        case "node":
            node = rng.choice(("node-0", "node-1"))
            store.patch(R.NODE, node, {"spec": {"unschedulable": rng.random() < 0.5}})
        case _:
            pods = rng.choice((1, 1, 2))
            gpus = rng.choice((0, 1, 4, 8))
            world.job(f"j-{number}", queue, gpus, pods=pods, runs_s=rng.choice((5, 3600)))


def test_pods_outlive_a_podgroup_that_is_made_again(world: World) -> None:
    store = world.cluster.store
    world.job("depth", "vision", pods=2, gpus=4)
    world.run()
    outside = Runtime(store, world.cluster.clock)
    view = Cluster("x", lambda: outside, store).view()
    outside.run_once()
    (before,) = view.jobs.rows()
    (group,) = store.list(R.POD_GROUP, "default").items
    store.delete(R.POD_GROUP, group["metadata"]["name"], "default")
    outside.run_once()
    assert view.jobs.rows() == []
    world.run(30)
    outside.run_once()
    (after,) = view.jobs.rows()
    assert after.job.running == before.job.running == 2
    outside.close()


def test_a_board_begins_with_what_is_there_and_follows_a_new_life() -> None:
    """A leader that has lost its lease begins anew with other caches."""
    with world_of() as world:
        world.queue("vision")
        world.job("one", "vision")
        world.run()
        runtime = world.cluster.runtime
        present = [runtime]
        cluster = Cluster("x", lambda: present[0], world.cluster.store)
        first = cluster.view()
        assert [row.job.name for row in first.jobs.rows()] == ["one"]
        assert cluster.view() is first
        present[0] = Runtime(world.cluster.store, world.cluster.clock)
        second = cluster.view()
        assert second is not first
        assert cluster.health()[0].state == "starting"
        present[0].run_once()
        assert [row.job.name for row in second.jobs.rows()] == ["one"]
        assert cluster.health()[0].ok
        present[0].close()

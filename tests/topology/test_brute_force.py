"""Against exhaustive search, and what must hold in any cluster."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.world import Job, Pod, running
from tests.topology.brute_force import Tally, nested, random_cluster, spanning, tightest
from tests.topology.racks import Bond, Racks


@pytest.mark.parametrize("seed", range(6))
def test_equal_pods_take_the_fewest_racks(seed: int) -> None:
    rng, tally = Random(seed), Tally()
    for _ in range(30):
        spanning(rng, tally, classes=1)
    assert tally.missed == 0
    assert max(tally.ratios) == 1.0


def test_pods_of_several_kinds_take_few_racks() -> None:
    rng, tally = Random(1), Tally()
    for _ in range(150):
        spanning(rng, tally, classes=3)
    assert tally.missed <= 1  # inside a domain pods are placed greedily, as everywhere
    assert sum(tally.ratios) / len(tally.ratios) <= 1.02


def test_units_find_their_racks_where_any_exist() -> None:
    rng, tally = Random(2), Tally()
    for _ in range(150):
        nested(rng, tally)
    assert tally.missed == 0


def test_the_tightest_rack_of_the_tightest_zone() -> None:
    rng = Random(3)
    for _ in range(150):
        tightest(rng)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["rack", "zone"]))
def test_a_gang_that_requires_a_domain_never_spans(seed: int, level: str) -> None:
    """Whatever is moved, evicted or grown for it."""
    rng = Random(seed)
    cluster = random_cluster(rng, most=8)
    jobs = [
        Job(f"held-{n.name}", [running(n.name)] * used, priority=rng.choice([40, 50, 60]))
        for n, used in zip(cluster.nodes, cluster.used, strict=True)
        if used
    ]
    start = rng.choice(cluster.nodes)
    room = cluster.free[start.name]
    grown = [running(start.name)] * rng.randint(0, min(room, 2))
    pods = [*grown, *[Pod(gpus=rng.choice([1, 2])) for _ in range(rng.randint(1, 6))]]
    jobs.append(Job("train", pods, minimum=rng.randint(1, len(pods)), priority=60))
    world = Racks(cluster.nodes, jobs, {"train": Bond(required=level)})
    outcome = world.decide()
    where = {n.name: (n.labels["zone"], n.labels["rack"]) for n in cluster.nodes}
    depth = 2 if level == "rack" else 1
    after = {f"train-{i}": start.name for i in range(len(grown))}
    after |= {k: v for k, v in {**outcome.bound, **outcome.nominated}.items() if "train" in k}
    for pod in outcome.evicted:
        if pod not in outcome.nominated:
            after.pop(pod, None)
    assert len({where[node][:depth] for node in after.values()}) <= 1

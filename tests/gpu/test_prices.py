"""What a request by GPU memory counts as: while it waits, against a limit, on a node."""

from __future__ import annotations

import numpy as np
import pytest

from kai_ray.scheduler.gpu.prices import against_limits, held, on_nodes, priced
from kai_ray.scheduler.snapshot import GPU
from tests.core.world import Job, Node, Pod, World, running

LARGE, SMALL = 80_000, 40_000


def world(devices: int, cards: tuple[int, ...] = (SMALL, LARGE)) -> World:
    held_slots = tuple(range(devices))
    nodes = [Node(f"n{i}", gpus=2, card=card) for i, card in enumerate(cards)]
    jobs = [Job("p", [Pod(gpus=0, mib=8_000, devices=devices)])]
    jobs += [
        Job(f"r{i}", [running(f"n{i}", slots=held_slots, gpus=0, mib=8_000, devices=devices)])
        for i in range(len(cards))
    ]
    return World(nodes, jobs)


@pytest.mark.parametrize(("devices", "need", "gate"), [(1, 0.2, 0.1), (2, 0.4, 0.2)])
def test_it_counts_by_the_smallest_card_and_against_limits_by_the_largest(
    devices: int, need: float, gate: float
) -> None:
    snapshot = priced(world(devices).snapshot())
    assert snapshot.classes.queue_request[GPU].tolist() == [need]
    assert against_limits(snapshot).tolist() == [gate]


def test_it_counts_by_its_card_once_it_has_one() -> None:
    snapshot = priced(world(1).snapshot())
    assert held(snapshot, np.arange(3))[GPU].tolist() == [0.2, 0.2, 0.1]
    assert snapshot.gpus is not None
    cards = np.array([SMALL, LARGE, 30_000])
    assert on_nodes(snapshot.gpus, 0, cards).tolist() == [0.2, 0.1, 0.27]  # whole percent, up


def test_without_any_known_card_it_counts_nothing() -> None:
    snapshot = priced(world(1, cards=(0, 0)).snapshot())
    assert snapshot.classes.queue_request[GPU].tolist() == [0.0]
    assert against_limits(snapshot).tolist() == [0.0]

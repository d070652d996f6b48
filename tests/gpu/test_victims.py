"""Evicting pods that share cards: who must go, who may stay, who moves to another card."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_ray.scheduler import DEFAULT, Reason
from kai_ray.scheduler.actions.allocate import allocate
from kai_ray.scheduler.actions.consolidation import consolidation
from kai_ray.scheduler.actions.preempt import preempt
from kai_ray.scheduler.actions.reclaim import reclaim
from tests.core.world import Job, Node, Pod, Queue, World, running

EVICTING = replace(DEFAULT, actions=(allocate, consolidation, reclaim, preempt))


def shares(part: float, slot: int, node: str = "n") -> Pod:
    return running(node, gpus=0, part=part, slots=(slot,))


def test_one_sharer_goes_and_the_other_stays() -> None:
    jobs = [
        Job("low", [shares(0.5, 0)], priority=10, created=1),
        Job("mid", [shares(0.5, 0)], priority=20),
        Job("high", [Pod(gpus=0, part=0.5)], priority=90, created=2),
    ]
    out = World([Node("n", gpus=1)], jobs).decide(EVICTING)
    assert out.evicted == {"low-0": (Reason.PREEMPTED, "high")}
    assert out.nominated == {"high-0": "n"}
    assert out.devices == {"high-0": (0,)}


def test_a_whole_gpu_needs_all_sharers_of_one_card_gone_not_one_of_each() -> None:
    jobs = [
        Job("a", [shares(0.5, 0)], priority=10),
        Job("b", [shares(0.6, 1)], priority=11),
        Job("c", [shares(0.5, 0)], priority=12),
        Job("high", [Pod(gpus=1)], priority=90),
    ]
    out = World([Node("n", gpus=2)], jobs).decide(EVICTING)
    assert set(out.evicted) == {"b-0"}
    assert out.nominated == {"high-0": "n"}


def test_two_halves_on_two_cards_are_put_together_for_a_whole_gpu() -> None:
    jobs = [
        Job("a", [shares(0.5, 0)]),
        Job("b", [shares(0.5, 1)], created=1),
        Job("w", [Pod(gpus=1)], created=2),
    ]
    out = World([Node("n", gpus=2)], jobs).decide(EVICTING)
    assert out.evicted == {"b-0": (Reason.CONSOLIDATED, "w")}
    assert out.nominated == {"b-0": "n", "w-0": "n"}
    assert out.devices["b-0"] == (0,)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.6), (0.9, 0.2)])
def test_parts_that_do_not_fit_one_card_stay_where_they_are(a: float, b: float) -> None:
    jobs = [Job("a", [shares(a, 0)]), Job("b", [shares(b, 1)], created=1), Job("w", [Pod(gpus=1)])]
    out = World([Node("n", gpus=2)], jobs).decide(EVICTING)
    assert out.evicted == {}
    assert out.nominated == {}


def test_a_queue_gets_its_share_of_a_card_back() -> None:
    queues = [Queue("a", gpu_quota=0.5), Queue("b", gpu_quota=0.5)]
    jobs = [
        Job("old", [shares(0.5, 0)], queue="a"),
        Job("new", [shares(0.5, 0)], queue="a", created=1),
        Job("mine", [Pod(gpus=0, part=0.5)], queue="b", created=2),
    ]
    out = World([Node("n", gpus=1)], jobs, queues).decide(EVICTING)
    assert out.evicted == {"new-0": (Reason.RECLAIMED, "mine")}


def test_several_devices_of_a_victim_come_back_together() -> None:
    both = running("n", gpus=0, part=0.6, devices=2, slots=(0, 1))
    jobs = [
        Job("v", [both], priority=10),
        Job("high", [Pod(gpus=0, part=0.6)] * 2, minimum=2, priority=90),
    ]
    out = World([Node("n", gpus=2)], jobs).decide(EVICTING)
    assert set(out.evicted) == {"v-0"}
    assert sorted(out.devices[f"high-{i}"] for i in range(2)) == [(0,), (1,)]


def test_memory_is_given_back_as_it_was_charged() -> None:
    nodes = [Node("n", gpus=1, card=80_000), Node("small", gpus=0, card=40_000)]
    jobs = [
        Job("v", [running("n", gpus=0, mib=60_000, slots=(0,))], priority=10),
        Job("high", [Pod(gpus=0, mib=60_000)], priority=90, created=1),
    ]
    out = World(nodes, jobs, [Queue("q", gpu_limit=1.0)]).decide(EVICTING)
    assert set(out.evicted) == {"v-0"}
    assert out.plan.allocated[2].tolist() == [0.75]

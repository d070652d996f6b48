"""Partitioned cards, and devices that pods claim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kai_ray.scheduler import DEFAULT, Plan, Reason, decide
from kai_ray.scheduler.gpu.facts import Claim, GpuKind, MigMode
from kai_ray.scheduler.snapshot import GPU
from tests.core.world import Job, Node, Outcome, Pod, World, X, running

PROFILE = 4  # the extended resource of test clusters plays a profile and a device class


def one_claim(*charge: tuple[int, int], node: int = -1, free: int = 256) -> list[Claim]:
    return [Claim(charge or ((GPU, 1),), node, free)]


def claiming(**more: object) -> Pod:
    return Pod(gpus=0, claims=(0,), **more)  # type: ignore[arg-type]


def mig_plan(node: Node, by_share: bool = False, quota: float = -1.0) -> Plan:
    """One pod that asks for two profiles of two slices each."""
    world = World([node], [Job("p", [Pod(gpus=0, extra=2)])])
    world.queues[0] = replace(world.queues[0], gpu_limit=quota)
    snapshot = world.snapshot()
    assert snapshot.gpus is not None
    charge = snapshot.classes.queue_request.copy()
    charge[GPU] = 4
    gpus = replace(
        snapshot.gpus,
        kind=np.array([GpuKind.MIG], dtype=np.int8),
        mig_share=np.array([4 / 7]),
        mig_excess=6.0,
    )
    classes = replace(snapshot.classes, queue_request=charge)
    return decide(
        replace(snapshot, gpus=gpus, classes=classes), replace(DEFAULT, mig_by_share=by_share)
    )


def test_profiles_go_to_cards_in_mixed_mode() -> None:
    assert mig_plan(Node("n", gpus=0, extra=2, mig=MigMode.MIXED)).bind_task.tolist() == [0]


@pytest.mark.parametrize("mode", [MigMode.SINGLE])
def test_profiles_stay_off_other_cards(mode: MigMode) -> None:
    plan = mig_plan(Node("n", gpus=2, extra=2, mig=mode))
    assert plan.bind_task.size == 0
    assert dict(plan.waits[0].counts) == {Reason.MIG_MISMATCH: 1}


def test_a_profile_that_no_node_offers_is_named() -> None:
    plan = mig_plan(Node("n", gpus=0, extra=1, mig=MigMode.MIXED))
    assert plan.waits[0].reason is Reason.MIG_PROFILE_MISSING
    assert plan.waits[0].detail == "example.com/nic"


def test_quota_counts_slices_or_the_part_of_a_card() -> None:
    node = Node("n", gpus=0, extra=2, mig=MigMode.MIXED)
    assert mig_plan(node).allocated[GPU].tolist() == [4.0]
    assert mig_plan(node, by_share=True).allocated[GPU].tolist() == [pytest.approx(4 / 7)]
    assert mig_plan(node, quota=3).bind_task.size == 0
    assert mig_plan(node, by_share=True, quota=3).bind_task.size == 1


@pytest.mark.parametrize(
    ("mode", "bound"),
    [
        (MigMode.NONE, {"whole-0", "share-0", "cpu-0"}),
        (MigMode.SINGLE, {"whole-0", "cpu-0"}),
        (MigMode.MIXED, {"cpu-0"}),
        (MigMode.OPEN, {"whole-0", "share-0", "cpu-0"}),
    ],
)
def test_what_each_mode_takes(mode: MigMode, bound: set[str]) -> None:
    jobs = [
        Job("whole", [Pod(gpus=1)]),
        Job("share", [Pod(gpus=0, part=0.5)]),
        Job("cpu", [Pod(gpus=0)]),
    ]
    out = World([Node("n", gpus=4, mig=mode)], jobs).decide()
    assert set(out.bound) == bound


def test_profiles_by_annotation_are_never_placed() -> None:
    out = World([Node("n", mig=MigMode.MIXED)], [Job("p", [Pod(gpus=0, legacy_mig=True)])]).decide()
    assert out.bound == {}
    assert out.waits["p"].reason is Reason.MIG_BY_ANNOTATION


# ---- claims


def test_pods_of_one_claim_share_its_device_on_its_node() -> None:
    nodes = [Node("a", gpus=1), Node("b", gpus=4)]
    out = World(nodes, [Job("p", [claiming()] * 3, minimum=3)], claims=one_claim()).decide()
    assert out.bound == {"p-0": "a", "p-1": "a", "p-2": "a"}  # a GPU for all three


def test_a_gang_that_one_node_cannot_hold_cannot_share_a_claim() -> None:
    nodes = [Node("a", gpus=1, cpu=1000), Node("b", gpus=1, cpu=1000)]
    out = World(nodes, [Job("p", [claiming()] * 2, minimum=2)], claims=one_claim()).decide()
    assert out.bound == {}


def test_an_allocated_claim_ties_its_pods() -> None:
    nodes = [Node("a", gpus=4), Node("b", gpus=1)]
    jobs = [Job("r", [running("b", gpus=0, claims=(0,))]), Job("p", [claiming()])]
    out = World(nodes, jobs, claims=one_claim(node=1)).decide()
    assert out.bound == {"p-0": "b"}  # its GPU is counted once


def test_other_pods_do_not_get_a_claimed_device() -> None:
    jobs = [Job("r", [running("a", gpus=0, claims=(0,))]), Job("w", [Pod(gpus=1)])]
    assert World([Node("a", gpus=1)], jobs, claims=one_claim(node=0)).decide().bound == {}
    # ... nor one that is allocated to a pod that we do not see
    alone = World([Node("a", gpus=1)], [Job("w", [Pod(gpus=1)])], claims=one_claim(node=0))
    alone.nodes[0] = replace(alone.nodes[0], card=1000)
    assert alone.decide().bound == {}


def test_a_claim_takes_as_many_pods_as_are_free() -> None:
    jobs = [Job(f"p{i}", [claiming()], created=float(i)) for i in range(3)]
    out = World([Node("a")], jobs, claims=one_claim(free=2)).decide()
    assert sorted(out.bound) == ["p0-0", "p1-0"]
    assert out.waits["p2"].reason is Reason.CLAIM_FULL


def test_a_claim_frees_its_device_when_its_last_pod_leaves() -> None:
    def leaving(*states: object) -> Outcome:
        users = [Pod(gpus=0, claims=(0,), node="a", state=s) for s in states]  # type: ignore[arg-type]
        jobs = [Job("r", users), Job("w", [Pod(gpus=1)])]
        return World([Node("a", gpus=1)], jobs, claims=one_claim(node=0)).decide()

    assert leaving(X, X).nominated == {"w-0": "a"}
    assert leaving(X, running("a").state).nominated == {}


def test_a_claim_takes_its_devices_with_the_first_pod() -> None:
    claim = one_claim((GPU, 2), (PROFILE, 2))
    assert (
        World([Node("a", gpus=2, extra=1)], [Job("p", [claiming()])], claims=claim).decide().bound
        == {}
    )
    fits = World([Node("a", gpus=2, extra=2)], [Job("p", [claiming()])], claims=claim)
    assert fits.decide().bound == {"p-0": "a"}

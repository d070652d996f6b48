"""Who leaves for a gang that must have a whole rack."""

from __future__ import annotations

from kai_ray.scheduler import Reason
from tests.core.world import Job, Pod, running
from tests.topology.racks import Bond, Racks, node

RACK = Bond(required="rack")


def _low(name: str, at: str, created: float, pods: int = 4) -> Job:
    return Job(name, [running(at)] * pods, minimum=pods, priority=40, created=created)


def test_victims_are_those_of_one_rack() -> None:
    nodes = [node("a1", "r1"), node("b1", "r2"), node("a2", "r1"), node("b2", "r2")]
    others = [_low("w", "a1", 1), _low("x", "b1", 4), _low("y", "a2", 3), _low("z", "b2", 2)]
    train = Job("train", [Pod()] * 8, minimum=8, priority=60)
    world = Racks(nodes, [*others, train], {"train": RACK})
    outcome = world.decide()
    # The newest two, x and y, lie in two racks: x, y and z would free one, x and z are enough.
    assert {pod.split("-")[0] for pod in outcome.evicted} == {"x", "z"}
    assert world.racks(outcome, "train") == ["r2"] * 8
    assert {why for why, _ in outcome.evicted.values()} == {Reason.PREEMPTED}


def test_nobody_leaves_where_no_rack_can_be_emptied() -> None:
    nodes = [node("a1", "r1"), node("b1", "r2")]
    firm = Job("firm", [running("a1")], priority=80, preemptible=False)
    train = Job("train", [Pod()] * 5, minimum=5, priority=60)
    others = [_low("x", "b1", 2)]
    outcome = Racks(nodes, [firm, *others, train], {"train": RACK}).decide()
    assert outcome.evicted == {}
    assert outcome.waits["train"].reason is Reason.GANG_DOES_NOT_FIT


def test_a_victim_that_requires_a_rack_moves_as_a_whole_or_not_at_all() -> None:
    nodes = [node("a", "r1", gpus=4), node("b", "r2", gpus=2), node("c", "r3", gpus=2)]
    moved = Job("moved", [running("a", gpus=1)] * 3, minimum=3, created=1)
    train = Job("train", [Pod(gpus=4)], minimum=1, created=2)
    outcome = Racks(nodes, [moved, train], {"moved": RACK}).decide()
    # Three single GPUs are free, but in two racks: consolidation would tear the gang.
    assert outcome.evicted == {}
    free = Racks(nodes, [moved, train], {}).decide()
    assert {why for why, _ in free.evicted.values()} == {Reason.CONSOLIDATED}


def test_a_gang_that_runs_in_a_rack_empties_that_rack_to_grow() -> None:
    nodes = [node("a", "r1", gpus=4), node("b", "r2", gpus=4)]
    train = Job("train", [running("a"), Pod(), Pod()], minimum=3, priority=60)
    world = Racks(
        nodes,
        [_low("x", "a", 1, pods=3), _low("y", "b", 2, pods=4), train],
        {"train": RACK},
    )
    outcome = world.decide()
    assert {pod.split("-")[0] for pod in outcome.evicted} == {"x"}
    assert world.racks(outcome, "train") == ["r1", "r1"]

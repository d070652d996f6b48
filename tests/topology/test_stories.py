"""Gangs and racks, told as stories."""

from __future__ import annotations

import numpy as np
import pytest

from kai_ray.scheduler import Reason
from kai_ray.scheduler.snapshot import Op, TaskState
from kai_ray.scheduler.validate import SnapshotError
from tests.core.world import Job, Node, Pod, running
from tests.topology.racks import Bond, Racks, node

RACK = Bond(required="rack")
NEAR = Bond(preferred="rack")
FOUR = [node("a1", "r1"), node("a2", "r1"), node("b1", "r2"), node("b2", "r2")]


def test_a_gang_that_requires_a_rack_stays_in_one() -> None:
    world = Racks(
        [node("a", "r1"), node("b", "r2", gpus=2), node("c", "r2", gpus=2)],
        [
            Job("other", [running("a")]),
            Job("train", [Pod()] * 4, minimum=4),
        ],
        {"train": RACK},
    )
    assert world.racks(world.decide(), "train") == ["r2"] * 4


def test_without_a_rack_that_holds_it_it_waits_and_hears_which_comes_nearest() -> None:
    world = Racks(
        FOUR,
        [
            Job("other", [running("a1", gpus=2), running("b2", gpus=3)], preemptible=False),
            Job("train", [Pod()] * 7, minimum=7),
        ],
        {"train": RACK},
    )
    outcome = world.decide()
    assert world.racks(outcome, "train") == []
    assert outcome.waits["train"].reason is Reason.TOPOLOGY_UNSATISFIED
    assert outcome.headline("train") == (
        "Waiting for one domain of rack with room for 7 pods; "
        "nearest: z1.r1 has room for 6, lacks 1 GPU"
    )


def test_the_tightest_rack_that_fits_is_taken() -> None:
    nodes = [node("a", "r1", gpus=8), node("b", "r2", gpus=4), node("c", "r3", gpus=6)]
    world = Racks(nodes, [Job("train", [Pod()] * 4, minimum=4)], {"train": RACK})
    assert world.racks(world.decide(), "train") == ["r2"] * 4


def test_racks_that_are_equally_tight_go_by_name() -> None:
    world = Racks(FOUR, [Job("train", [Pod()] * 4, minimum=4)], {"train": RACK})
    assert world.racks(world.decide(), "train") == ["r1"] * 4


def test_the_tightest_zone_comes_before_the_tightest_rack() -> None:
    nodes = [
        node("a", "r1", gpus=2),
        node("b", "r2", gpus=8),
        node("c", "r3", gpus=4, zone="z2"),
    ]
    world = Racks(nodes, [Job("train", [Pod()] * 2, minimum=2)], {"train": NEAR})
    assert world.racks(world.decide(), "train") == ["r3"] * 2


def test_a_preferred_rack_is_one_rack_where_any_fits() -> None:
    world = Racks(
        FOUR,
        [Job("other", [running("a1")]), Job("train", [Pod()] * 8, minimum=8)],
        {"train": NEAR},
    )
    assert world.racks(world.decide(), "train") == ["r2"] * 8


def test_a_gang_that_must_span_takes_the_fewest_racks() -> None:
    nodes = [node(f"n{i}", f"r{i}", gpus=g) for i, g in enumerate([2, 5, 3, 6, 2])]
    world = Racks(nodes, [Job("train", [Pod()] * 8, minimum=8)], {"train": NEAR})
    # 6, then the smallest that holds the other 2; packing node by node would take four racks.
    assert world.racks(world.decide(), "train") == ["r3"] * 6 + ["r4"] * 2


def test_it_spans_racks_of_one_zone_before_it_spans_zones() -> None:
    nodes = [
        node("a", "r1", gpus=5),
        node("b", "r2", gpus=3, zone="z2"),
        node("c", "r3", gpus=3, zone="z2"),
        node("d", "r4", gpus=2),
    ]
    jobs = [Job("train", [Pod()] * 6, minimum=6)]
    world = Racks(nodes, jobs, {"train": NEAR})
    outcome = world.decide()
    assert set(world.racks(outcome, "train", "zone")) == {"z2"}


def test_preferred_inside_required_never_leaves_the_zone() -> None:
    nodes = [node("a", "r1"), node("b", "r2"), node("c", "r3", zone="z2")]
    jobs = [Job("train", [Pod()] * 9, minimum=9)]
    bond = Bond(required="zone", preferred="rack")
    outcome = Racks(nodes, jobs, {"train": bond}).decide()
    assert outcome.bound == {}
    assert outcome.waits["train"].domain is not None
    assert outcome.waits["train"].domain.room == 8


def test_units_of_a_gang_each_have_their_rack_inside_one_zone() -> None:
    tree = (
        ("", "", 2, False),
        ("u0", "", 3, True),
        ("u1", "", 3, True),
    )
    leaves = ("u0",) * 3 + ("u1",) * 3
    nodes = [
        node("a", "r1", gpus=5),
        node("b", "r2", gpus=2),
        node("c", "r3", gpus=3, zone="z2"),
        node("d", "r4", gpus=3, zone="z2"),
    ]
    world = Racks(
        nodes,
        [Job("train", [Pod()] * 6, tree=tree, leaf_of=leaves)],
        {"train": Bond(required="zone"), "train/u0": RACK, "train/u1": RACK},
    )
    outcome = world.decide()
    # 7 GPUs are free in z1, but 3 + 3 in one rack each only in z2.
    assert world.racks(outcome, "train") == ["r3"] * 3 + ["r4"] * 3


def test_an_inner_choice_is_changed_when_it_leaves_a_sibling_no_room() -> None:
    tree = (("", "", 2, False), ("big", "", 4, True), ("any", "", 2, True))
    nodes = [node("a", "r1", gpus=4), node("b", "r2", gpus=2)]
    only_a = (((("host", Op.IN, ("a",)),),),)
    pods = [Pod()] * 2 + [Pod(needs=only_a)] * 4
    world = Racks(
        nodes,
        [Job("train", pods, tree=tree, leaf_of=("any",) * 2 + ("big",) * 4)],
        {"train/big": RACK, "train/any": RACK},
    )
    assert world.racks(world.decide(), "train") == ["r2"] * 2 + ["r1"] * 4


def test_running_members_tie_the_rest_to_their_rack() -> None:
    nodes = [node("a", "r1", gpus=4), node("b", "r2", gpus=1)]
    job = Job("train", [running("a"), running("a"), Pod()], minimum=2)
    world = Racks(nodes, [job], {"train": RACK})
    assert world.racks(world.decide(), "train") == ["r1"]  # r2 would be tighter


def test_members_of_another_leaf_tie_the_set_too() -> None:
    tree = (("", "", 1, False), ("x", "", 1, True), ("y", "", 1, True))
    nodes = [node("a", "r1", gpus=4), node("b", "r2", gpus=1)]
    job = Job("train", [running("a"), Pod()], tree=tree, leaf_of=("x", "y"))
    world = Racks(nodes, [job], {"train": RACK})
    assert world.racks(world.decide(), "train") == ["r1"]


def test_a_tied_gang_waits_when_its_rack_is_full() -> None:
    nodes = [node("a", "r1", gpus=1), node("b", "r2", gpus=4)]
    job = Job("train", [running("a"), Pod()], minimum=1)
    outcome = Racks(nodes, [job], {"train": RACK}).decide()
    assert outcome.bound == {}
    assert "the one where others of the gang run" in outcome.headline("train")


def test_growth_prefers_the_rack_where_the_gang_is() -> None:
    nodes = [node("a", "r1", gpus=6), node("b", "r2", gpus=1)]
    job = Job("train", [running("a"), running("a"), Pod()], minimum=2)
    world = Racks(nodes, [job], {"train": NEAR})
    assert world.racks(world.decide(), "train") == ["r1"]


def test_nodes_outside_the_topology_are_never_used() -> None:
    nodes = [node("a", "r1", gpus=2), Node("x", gpus=8)]
    jobs = [Job("small", [Pod()] * 2, minimum=2), Job("large", [Pod()] * 4, minimum=4, created=1)]
    world = Racks(nodes, jobs, {"small": NEAR, "large": NEAR})
    outcome = world.decide()
    assert set(outcome.bound.values()) == {"a"}
    assert outcome.waits["large"].reason is Reason.TOPOLOGY_UNSATISFIED


def test_a_rack_that_holds_it_now_comes_before_one_that_will() -> None:
    leaving = Job("old", [Pod(state=TaskState.RELEASING, node="a", gpus=3)])
    nodes = [node("a", "r1", gpus=4), node("b", "r2", gpus=8)]
    world = Racks(nodes, [leaving, Job("train", [Pod()] * 4, minimum=4)], {"train": RACK})
    outcome = world.decide()
    assert world.racks(outcome, "train") == ["r2"] * 4
    assert not outcome.nominated


def test_a_gang_waits_for_a_rack_that_is_being_released() -> None:
    leaving = Job("old", [Pod(state=TaskState.RELEASING, node="a", gpus=3)])
    nodes = [node("a", "r1", gpus=4), node("b", "r2", gpus=3)]
    world = Racks(nodes, [leaving, Job("train", [Pod()] * 4, minimum=4)], {"train": RACK})
    outcome = world.decide()
    assert outcome.bound == {}
    assert set(outcome.nominated.values()) == {"a"}


def test_leaves_may_follow_another_topology_than_their_gang() -> None:
    tree = (("", "", 2, False), ("x", "", 2, True), ("y", "", 2, True))
    nodes = [
        node("a", "r1", gpus=2, zone="z1"),
        node("b", "r1", gpus=2, zone="z2"),
        node("c", "r2", gpus=2, zone="z2"),
    ]
    world = Racks(
        nodes,
        [Job("train", [Pod()] * 4, tree=tree, leaf_of=("x",) * 2 + ("y",) * 2)],
        {
            "train": Bond(required="zone", topology="zones"),
            "train/x": Bond(required="rack", topology="racks"),
            "train/y": Bond(required="rack", topology="racks"),
        },
        levels={"zones": ("zone",), "racks": ("rack",)},
    )
    outcome = world.decide()
    assert set(world.racks(outcome, "train", "zone")) == {"z2"}
    assert world.racks(outcome, "train") == ["r1"] * 2 + ["r2"] * 2


@pytest.mark.parametrize(
    ("bond", "reason"),
    [
        (Bond(required="rack", topology="elsewhere"), Reason.TOPOLOGY_NOT_FOUND),
        (Bond(required="row"), Reason.TOPOLOGY_LEVEL_NOT_FOUND),
        (Bond(preferred="row"), Reason.TOPOLOGY_LEVEL_NOT_FOUND),
    ],
)
def test_names_that_do_not_exist_keep_the_gang_waiting(bond: Bond, reason: Reason) -> None:
    jobs = [Job("train"), Job("free", created=1)]
    outcome = Racks(FOUR, jobs, {"train": bond}).decide()
    assert set(outcome.bound) == {"free-0"}
    assert outcome.waits["train"].reason is reason
    assert outcome.headline("train").startswith("It names a")


def test_a_required_level_below_the_preferred_one_is_all_that_counts() -> None:
    bond = Bond(required="rack", preferred="zone")
    world = Racks(FOUR, [Job("train", [Pod()] * 8, minimum=8)], {"train": bond})
    assert len(set(world.racks(world.decide(), "train"))) == 1


def test_a_hundred_nested_constraints_are_refused_not_followed() -> None:
    rows = [("", "", 1, False)]
    rows += [(f"s{i}", f"s{i - 1}" if i else "", 1, False) for i in range(100)]
    rows += [("leaf", "s99", 1, True)]
    job = Job("deep", tree=tuple(rows), leaf_of=("leaf",))
    bonds = {f"deep/s{i}": RACK for i in range(100)}
    outcome = Racks(FOUR, [job], bonds).decide()
    assert outcome.waits["deep"].reason is Reason.MISCONFIGURED


def test_domains_that_make_no_tree_are_refused() -> None:
    snapshot = Racks(FOUR, [Job("train")], {"train": RACK}).snapshot()
    assert snapshot.topologies is not None
    snapshot.topologies.domain[0] = [0, 1, 1, 1]
    with pytest.raises(SnapshotError, match="lies in two wider ones"):
        snapshot.validate()
    snapshot.topologies.domain[0] = np.array([0, 0, 2, 2])
    with pytest.raises(SnapshotError, match="has no code 1"):
        snapshot.validate()

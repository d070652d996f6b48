"""Pods and the cells inside nodes, told as stories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_ray.scheduler import Reason
from kai_ray.scheduler.snapshot import TaskState
from kai_ray.scheduler.zones.facts import Unit, ZonePolicy
from tests.core.world import Job, Node, Pod, running
from tests.zones.cells import Asks, Cells, Numa

SINGLE, BEST = ZonePolicy.SINGLE, ZonePolicy.BEST_EFFORT
RESTRICTED, NONE = ZonePolicy.RESTRICTED, ZonePolicy.NONE
TWO_CELLS = {"a": Numa()}


def test_a_pod_too_large_for_any_cell_waits_and_is_told_why() -> None:
    world = Cells([Node("a", gpus=2)], [Job("j", [Pod(cpu=6000)])], TWO_CELLS)
    outcome = world.settle().outcome
    assert outcome.bound == {}
    assert outcome.waits["j"].reason is Reason.NUMA_UNALIGNED
    assert "1 node whose NUMA cells cannot hold the pod" in outcome.headline("j")


def test_pods_fill_cells_one_by_one_and_the_next_waits() -> None:
    jobs = [Job(name, [Pod(cpu=3000, gpus=0)], created=i) for i, name in enumerate("xyz")]
    found = Cells([Node("a", gpus=2)], jobs, TWO_CELLS).settle()
    assert found.cells == {"x-0": [0], "y-0": [1]}
    assert found.outcome.waits["z"].reason is Reason.NUMA_UNALIGNED


def test_a_gang_counts_what_cells_hold_not_what_nodes_hold() -> None:
    nodes = [Node("a", gpus=2), Node("b", gpus=2)]
    numa = {"a": Numa(), "b": Numa()}
    gang = Job("g", [Pod(cpu=3000, gpus=0)] * 5, minimum=5)
    assert Cells(nodes, [gang], numa).settle().outcome.bound == {}
    four = replace(gang, pods=gang.pods[:4], minimum=4)
    found = Cells(nodes, [four], numa).settle()
    assert sorted(found.outcome.bound.values()) == ["a", "a", "b", "b"]
    assert sorted(cell for cells in found.cells.values() for cell in cells) == [0, 0, 1, 1]


def test_a_burstable_pod_is_not_held_to_cells_unless_it_asks_for_devices() -> None:
    asks = {"b": Asks(guaranteed=False)}
    plain = Job("plain", [Pod(cpu=6000, gpus=0, label="b")])
    found = Cells([Node("a", gpus=2)], [plain], TWO_CELLS, asks=asks).settle()
    assert found.outcome.bound == {"plain-0": "a"}
    assert found.cells == {}
    device = Job("device", [Pod(cpu=6000, gpus=2, label="b")])
    waits = Cells([Node("a", gpus=2)], [device], TWO_CELLS, asks=asks).settle().outcome.waits
    assert waits["device"].reason is Reason.NUMA_UNALIGNED


def test_a_node_where_the_pod_is_in_one_cell_is_preferred() -> None:
    nodes = [Node("a", gpus=2), Node("b", gpus=8)]
    numa = {"a": Numa(policy=BEST), "b": Numa(((8000, 4, 0), (8000, 4, 0)), BEST)}
    found = Cells(nodes, [Job("j", [Pod(cpu=6000, gpus=2)])], numa).settle()
    assert found.outcome.bound == {"j-0": "b"}  # packing would have taken a
    assert found.cells == {"j-0": [0]}


def test_best_effort_refuses_nobody() -> None:
    world = Cells([Node("a", gpus=2)], [Job("j", [Pod(cpu=9000)])], {"a": Numa(policy=BEST)})
    assert world.settle().outcome.bound == {"j-0": "a"}


@pytest.mark.parametrize("policy", [NONE, BEST])
def test_a_pod_may_ask_for_a_single_cell_where_the_node_does_not(policy: ZonePolicy) -> None:
    numa, asks = {"a": Numa(policy=policy)}, {"s": Asks(own=SINGLE)}
    nodes = [Node("a", gpus=2)]
    large = Job("large", [Pod(cpu=6000, label="s")])
    assert Cells(nodes, [large], numa, asks=asks).settle().outcome.bound == {}
    small = Job("small", [Pod(cpu=4000, label="s")])
    found = Cells(nodes, [small], numa, asks=asks).settle()
    assert found.cells == {"small-0": [0]}


def test_a_pod_that_asks_for_a_single_cell_goes_to_nodes_that_tell_of_cells() -> None:
    world = Cells(
        [Node("a", gpus=1), Node("b", gpus=2)],
        [Job("j", [Pod(label="s")])],
        {"b": Numa()},
        asks={"s": Asks(own=SINGLE)},
    )
    assert world.settle().outcome.bound == {"j-0": "b"}


def test_network_cards_are_of_the_cell_of_the_gpu() -> None:
    cells = ((4000, 1, 0), (4000, 1, 1))
    world = Cells(
        [Node("a", gpus=2, extra=1)],
        [Job("j", [Pod(gpus=1, extra=1)])],
        {"a": Numa(cells)},
    )
    assert world.settle().cells == {"j-0": [1]}


def test_containers_may_be_in_different_cells() -> None:
    parts = (Unit((3000, 0, 0)), Unit((3000, 1, 0)))
    asks = {"two": Asks(containers=parts)}
    numa = {"a": Numa(per_container=True)}
    job = Job("j", [Pod(cpu=6000, label="two")])
    found = Cells([Node("a", gpus=2)], [job], numa, asks=asks).settle()
    assert found.cells == {"j-0": [0, 1]}


def test_gpus_of_a_pod_are_of_one_link_group_if_it_asks() -> None:
    nodes = [Node("a", gpus=8), Node("b", gpus=8)]
    links = {"a": (2, 2, 2, 2), "b": (4, 4)}
    asks = {"nvlink": Asks(own=SINGLE)}
    pods = [Pod(gpus=4, label="nvlink")]
    jobs = [Job(f"j{i}", pods, created=i) for i in range(3)]
    found = Cells(nodes, jobs, links=links, asks=asks).settle()
    assert found.links == {"j0-0": [0], "j1-0": [1]}
    assert set(found.outcome.bound.values()) == {"b"}
    assert found.outcome.waits["j2"].reason is Reason.GPUS_NOT_LINKED


def test_without_links_told_nobody_is_promised_any() -> None:
    asks = {"nvlink": Asks(own=SINGLE)}
    world = Cells(
        [Node("a", gpus=8), Node("b", gpus=2)],
        [Job("j", [Pod(gpus=2, label="nvlink")])],
        links={"b": (2,)},
        asks=asks,
    )
    assert world.settle().outcome.bound == {"j-0": "b"}


def test_others_leave_link_groups_whole_where_they_can() -> None:
    nodes = [Node("a", gpus=4)]
    jobs = [
        Job("x", [Pod(gpus=1)]),
        Job("y", [Pod(gpus=1)], created=1),
        Job("z", [Pod(gpus=2, label="nvlink")], created=2),
    ]
    asks = {"nvlink": Asks(own=SINGLE)}
    found = Cells(nodes, jobs, links={"a": (2, 2)}, asks=asks).settle()
    assert found.links == {"x-0": [0], "y-0": [0], "z-0": [1]}


def test_a_victim_frees_its_cell_and_the_preemptor_waits_for_it() -> None:
    jobs = [
        Job("low", [running("a", cpu=3000, gpus=0)], priority=40),
        Job("mid", [running("a", cpu=3000, gpus=0)], priority=50),
        Job("high", [Pod(cpu=3000, gpus=0)], priority=60),
    ]
    held = {"low-0": (1, (3000, 0, 0)), "mid-0": (0, (3000, 0, 0))}
    found = Cells([Node("a", gpus=2)], jobs, TWO_CELLS, held=held).settle()
    assert set(found.outcome.evicted) == {"low-0"}
    assert found.outcome.nominated == {"high-0": "a"}
    assert found.cells == {"high-0": [1]}


def test_nobody_is_evicted_whose_cell_would_not_help() -> None:
    jobs = [
        Job("low", [running("a", cpu=1000, gpus=0)], priority=40),
        Job("high", [Pod(cpu=5000, gpus=0)], priority=60),
    ]
    found = Cells([Node("a", gpus=2)], jobs, TWO_CELLS, held={"low-0": (0, (1000, 0, 0))}).settle()
    assert found.outcome.evicted == {}


def test_cells_of_pods_that_are_leaving_are_free_later_not_now() -> None:
    leaving = Pod(cpu=3000, gpus=0, state=TaskState.RELEASING, node="a")
    jobs = [Job("old", [leaving]), Job("new", [Pod(cpu=3000, gpus=0)])]
    numa = {"a": Numa(((4000, 1, 0),))}
    found = Cells([Node("a", gpus=1)], jobs, numa, held={"old-0": (0, (3000, 0, 0))}).settle()
    assert found.outcome.bound == {}
    assert found.outcome.nominated == {"new-0": "a"}

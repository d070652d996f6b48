"""What nodes tell of their GPUs reaches the scheduler: broken ones are left out, links are used."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import Object
from kai_ray.controllers.told_zones import link_groups, zones_of
from kai_ray.gpu.node_use import DeviceUse, Mig, read
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster


def _cluster(**pool: Any) -> EmbeddedCluster:
    raw = {
        "nodePools": [{"name": "n", "count": 1, "gpus": 8, **pool}],
        "gpuUse": {"periodSeconds": 30},
    }
    return EmbeddedCluster(ClusterConfig.of(raw), VirtualClock())


def _pod(name: str, gpus: int, **notes: str) -> Object:
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    meta = {"name": name, "namespace": "default", "annotations": notes}
    return {"metadata": meta, "spec": {"containers": [container]}}


def _runs(c: EmbeddedCluster, name: str) -> bool:
    return (c.client.get(kinds.POD, name, "default").get("status") or {}).get("phase") == "Running"


def _notes(c: EmbeddedCluster, values: dict[str, str | None] | None = None) -> dict[str, str]:
    if values is not None:
        c.client.patch(kinds.NODE, "n-0", {"metadata": {"annotations": values}})
    return c.client.get(kinds.NODE, "n-0")["metadata"].get("annotations") or {}


def test_a_gpu_that_fell_off_the_bus_is_given_to_nobody_until_it_is_back() -> None:
    with _cluster() as c:
        _notes(c, {L.SIM_BAD_GPUS: "3"})
        c.run_for(40)
        marked = json.loads(_notes(c)[L.BAD_DEVICES])
        assert list(marked) == ["GPU-n-0-3"] and "XID 79" in marked["GPU-n-0-3"]["reason"]
        c.client.create(kinds.POD, _pod("all", 8))
        c.client.create(kinds.POD, _pod("seven", 7))
        c.run_for(60)
        assert _runs(c, "seven") and not _runs(c, "all")
        c.client.delete(kinds.POD, "seven", "default")
        _notes(c, {L.SIM_BAD_GPUS: None})
        c.run_for(60)
        assert L.BAD_DEVICES not in _notes(c)
        assert _runs(c, "all")


def test_an_agent_that_falls_silent_takes_nothing_back() -> None:
    with _cluster() as c:
        _notes(c, {L.SIM_BAD_GPUS: "3"})
        c.run_for(40)
        _notes(c, {L.SIM_DOWN: "true"})
        c.run_for(1200)
        assert L.BAD_DEVICES in _notes(c)
        c.client.delete(kinds.GPU_NODE_STATE, "n-0")
        c.run_for(5)
        assert L.BAD_DEVICES not in _notes(c)


def test_cells_and_links_become_zones_that_a_pod_may_ask_for() -> None:
    with _cluster(gpusPerNuma=4, gpusPerLink=2) as c:
        c.run_for(40)
        zones = json.loads(_notes(c)[L.NODE_ZONES])
        assert zones["zones"] == [
            {"name": "0", "nvidia.com/gpu": 4},
            {"name": "1", "nvidia.com/gpu": 4},
        ]
        assert len(zones["links"]) == 4
        c.client.create(kinds.POD, _pod("pair", 2, **{L.NODE_TOPOLOGY_POLICY: "nvlink"}))
        c.client.create(kinds.POD, _pod("three", 3, **{L.NODE_TOPOLOGY_POLICY: "nvlink"}))
        c.run_for(20)
        assert _runs(c, "pair") and not _runs(c, "three")


def test_an_annotation_of_somebody_else_is_left_alone() -> None:
    with _cluster(gpusPerNuma=4) as c:
        own = json.dumps({"zones": [{"name": "0", "nvidia.com/gpu": 8}]})
        _notes(c, {L.NODE_ZONES: own})
        c.run_for(90)
        assert _notes(c)[L.NODE_ZONES] == own
        _notes(c, {L.NODE_ZONES: None})
        c.run_for(5)
        assert json.loads(_notes(c)[L.NODE_ZONES])["by"] == "node agent"


_LINKS = {  # a cube of eight, in which each reaches three of its own four and one of the others
    i: tuple(j for j in range(8) if j != i and (i // 4 == j // 4 or j == (i + 4) % 8))
    for i in range(8)
}


@pytest.mark.parametrize(
    ("links", "groups"),
    [
        ({0: (1,), 1: (0,), 2: (3,), 3: (2,)}, [[0, 1], [2, 3]]),
        ({i: tuple(j for j in range(8) if j != i) for i in range(8)}, [list(range(8))]),
        (_LINKS, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ({0: (1,), 1: ()}, [[0], [1]]),  # only one of the two says so
        ({0: (), 1: ()}, [[0], [1]]),
        ({0: (7, 0)}, [[0]]),  # one that is not there
    ],
)
def test_groups_of_links_reach_each_other(links: dict, groups: list[list[int]]) -> None:
    assert link_groups([DeviceUse(f"u{i}", i, links=to) for i, to in links.items()]) == groups


def test_cards_that_are_partitioned_are_in_no_zone() -> None:
    parted = DeviceUse("u", 0, numa_node=0, mig=(Mig("m", "1g.10gb", None, None),))
    assert zones_of([parted]) == ""
    assert zones_of([DeviceUse("u", 0)]) == ""


@pytest.mark.parametrize(
    "status",
    [
        {"devices": "many"},
        {"devices": [{"index": 0}]},
        {"observedAt": "yesterday"},
        {"devices": [{"uuid": "u", "index": 0, "utilization": 7}]},
    ],
)
def test_an_object_that_makes_no_sense_is_a_node_with_a_problem(status: Object) -> None:
    found = read({"metadata": {"name": "n"}, "status": status})
    assert "cannot be read" in found.problem and found.devices == ()

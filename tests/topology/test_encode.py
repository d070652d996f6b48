"""Topology objects and PodGroup constraints, from YAML to a place in a rack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kai_ray.cluster import resources as kinds
from kai_ray.encode import Encoder
from kai_ray.scheduler import Reason
from kai_ray.scheduler.topology.facts import NONE, UNKNOWN
from tests.control import objects
from tests.control.encoding import NOW, encoded
from tests.control.world import World

LEVELS = [{"nodeLabel": "cloud/zone", "alias": "zone"}, {"nodeLabel": "cloud/rack"}]


def topology(name: str = "dc", levels: Any = LEVELS) -> dict[str, Any]:
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def node(name: str, zone: str = "", rack: str = "", gpus: int = 4) -> dict[str, Any]:
    labels = {"cloud/zone": zone, "cloud/rack": rack}
    return objects.node(name, gpus, labels={k: v for k, v in labels.items() if v})


def constraint(required: str = "", preferred: str = "", name: str = "dc") -> dict[str, str]:
    asked = {"requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    return {"topology": name, **{k: v for k, v in asked.items() if v}}


def test_a_domain_is_the_whole_path_and_nodes_without_a_label_are_outside() -> None:
    found = encoded(
        topology(),
        node("a", "z2", "r1"),
        node("b", "z1", "r1"),
        node("c", "z1", ""),
        node("d", "z1", "r1"),
    ).snapshot.topologies
    assert found is not None
    assert found.first.tolist() == [0, 2]
    assert found.domain.tolist() == [[1, 0, -1, 0], [1, 0, -1, 0]]


def test_constraints_of_gangs_and_subgroups_become_columns_aliases_resolved() -> None:
    group = objects.podgroup(
        "h",
        minimum=None,
        topologyConstraint=constraint(required="zone"),
        subGroups=[
            {"name": "x", "minMember": 1, "topologyConstraint": constraint("cloud/rack")},
            {"name": "y", "minMember": 1, "topologyConstraint": constraint("row", name="dc")},
            {"name": "z", "minMember": 1, "topologyConstraint": constraint("zone", name="no")},
        ],
    )
    got = encoded(topology(), node("a", "z", "r"), group)
    got.snapshot.validate()
    root = int(got.snapshot.gangs.root[1])
    trees = got.snapshot.subgroups
    assert trees.topology is not None
    assert trees.required_level is not None
    assert trees.topology[root:].tolist() == [0, 0, 0, UNKNOWN]
    assert trees.required_level[root:].tolist() == [0, 1, UNKNOWN, UNKNOWN]
    assert trees.topology[:root].tolist() == [NONE, NONE]


@pytest.mark.parametrize(
    ("levels", "field"),
    [
        ([], "spec.levels"),
        ("rack", "spec.levels"),
        ([{"alias": "zone"}], "spec.levels[0].nodeLabel"),
        ([{"nodeLabel": "a"}, {"nodeLabel": "b", "alias": "a"}], "spec.levels[1]"),
        ([{"nodeLabel": 7}], "spec.levels[0].nodeLabel"),
    ],
)
def test_a_topology_that_cannot_be_read_is_named_and_does_not_exist(
    levels: Any, field: str
) -> None:
    got = encoded(topology(levels=levels), node("a", "z", "r"))
    assert [(p.kind, p.field) for p in got.problems] == [("Topology", field)]
    assert got.snapshot.topologies is None


@pytest.mark.parametrize("bad", [["dc"], {"topology": 3}, "dc"])
def test_a_constraint_of_the_wrong_form_makes_its_gang_inert(bad: Any) -> None:
    got = encoded(objects.podgroup("h", topologyConstraint=bad))
    assert [p.field.startswith("spec.topologyConstraint") for p in got.problems] == [True]


def test_a_wish_without_a_topology_asks_nothing() -> None:
    spec = {"preferredTopologyLevel": "zone"}
    got = encoded(objects.podgroup("h", topologyConstraint=spec))
    assert got.problems == ()
    assert got.snapshot.subgroups.topology is None


def test_a_required_level_without_a_topology_starts_nothing_and_is_named() -> None:
    spec = {"requiredTopologyLevel": "zone"}
    (problem,) = encoded(objects.podgroup("h", topologyConstraint=spec)).problems
    assert problem.field == "spec.topologyConstraint.topology"
    assert "name a Topology" in problem.mend


def test_what_changes_one_by_one_ends_like_what_is_read_at_once() -> None:
    steps: list[tuple[Any, Any, Any]] = [
        (kinds.QUEUE, None, objects.queue("team")),
        (kinds.NODE, None, node("a", "z1", "r1")),
        (kinds.POD_GROUP, None, objects.podgroup("g", topologyConstraint=constraint("cloud/rack"))),
        (kinds.TOPOLOGY, None, topology()),
        (kinds.NODE, None, node("b", "z1", "r0")),
        (kinds.TOPOLOGY, topology(), topology(levels=LEVELS[1:])),
        (kinds.NODE, node("a", "z1", "r1"), node("a", "z1", "r2")),
        (kinds.POD_GROUP, None, objects.podgroup("h", topologyConstraint=constraint("", "zone"))),
    ]
    step_by_step = Encoder()
    now: dict[tuple[Any, str], Any] = {}
    for kind, old, new in steps:
        step_by_step.apply(kind, old, new)
        now[kind, new["metadata"]["name"]] = new
        at_once = Encoder()
        for (resource, _), obj in now.items():
            at_once.apply(resource, None, obj)
        mine, its = (e.snapshot(NOW).snapshot for e in (step_by_step, at_once))
        mine.validate()
        for name in ("topology", "required_level", "preferred_level"):
            np.testing.assert_array_equal(
                getattr(mine.subgroups, name), getattr(its.subgroups, name)
            )
        if its.topologies is None:
            assert mine.topologies is None
        else:
            assert mine.topologies is not None
            np.testing.assert_array_equal(mine.topologies.domain, its.topologies.domain)


def test_a_gang_is_kept_inside_a_rack() -> None:
    world = World(nodes=0)
    for name, rack in [("a", "r1"), ("b", "r2"), ("c", "r1"), ("d", "r2")]:
        world.store.create(kinds.NODE, node(name, "z1", rack, gpus=2))
    world.store.create(kinds.TOPOLOGY, topology())
    world.queue("team")
    world.gang("g", 4, gpus=1, topologyConstraint=constraint("cloud/rack"))
    world.run(2.0)
    racks = {pod["spec"].get("nodeName", "") for pod in world.pods()}
    assert racks in ({"a", "c"}, {"b", "d"})


def test_a_gang_that_fits_no_rack_is_told_the_nearest() -> None:
    world = World(nodes=0)
    for name, rack in [("a", "r1"), ("b", "r2")]:
        world.store.create(kinds.NODE, node(name, "z1", rack, gpus=2))
    world.store.create(kinds.TOPOLOGY, topology())
    world.queue("team")
    world.gang("g", 3, gpus=1, topologyConstraint=constraint("cloud/rack"))
    world.run(2.0)
    text = str(world.store.get(kinds.POD_GROUP, "g", "default")["status"])
    assert Reason.TOPOLOGY_UNSATISFIED.word in text
    assert "nearest: z1.r1 has room for 2, lacks 1 GPU" in text

"""Topologies and constraints that cannot be meant are refused, with the field and the mend."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.admission import default_admission
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import Invalid
from tests.control import objects
from tests.topology.test_encode import constraint, topology


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(VirtualClock(), default_admission(), seed=1)
    install_defaults(made)
    made.create(kinds.QUEUE, objects.queue("team"))
    made.create(kinds.TOPOLOGY, topology())
    return made


def refused(store: MemoryStore, **spec: Any) -> str:
    with pytest.raises(Invalid) as error:
        store.create(kinds.POD_GROUP, objects.podgroup("g", **spec))
    return str(error.value)


def test_a_level_that_the_topology_does_not_have(store: MemoryStore) -> None:
    text = refused(store, topologyConstraint=constraint("row"))
    assert "spec.topologyConstraint.requiredTopologyLevel: 'row' is no level of Topology dc" in text
    assert "use cloud/zone, zone, cloud/rack" in text


def test_a_required_level_below_the_preferred_one(store: MemoryStore) -> None:
    text = refused(store, topologyConstraint=constraint("cloud/rack", "zone"))
    assert "narrower than the preferred level" in text


def test_a_subgroup_is_named_by_its_place(store: MemoryStore) -> None:
    sub = {"name": "x", "minMember": 1, "topologyConstraint": constraint("", "row")}
    text = refused(store, minimum=None, subGroups=[sub])
    assert "spec.subGroups[0].topologyConstraint.preferredTopologyLevel" in text


def test_aliases_and_topologies_that_may_come_later_are_fine(store: MemoryStore) -> None:
    for i, bond in enumerate([constraint("zone", "cloud/rack"), constraint("x", name="later")]):
        group = objects.podgroup(f"g{i}", topologyConstraint=bond)
        store.create(kinds.POD_GROUP, group)


def test_no_two_levels_go_by_one_name(store: MemoryStore) -> None:
    levels = [{"nodeLabel": "a/b", "alias": "zone"}, {"nodeLabel": "c/d", "alias": "zone"}]
    with pytest.raises(Invalid, match="is there twice"):
        store.create(kinds.TOPOLOGY, topology("other", levels))


def test_ten_thousand_segments_are_refused_in_words(store: MemoryStore) -> None:
    many = [{"name": f"s{i}", "minMember": 1} for i in range(10_001)]
    assert "spec.subGroups" in refused(store, minimum=None, subGroups=many)

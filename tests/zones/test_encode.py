"""Zones of nodes and policies of pods, from objects to a place in a cell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.controllers.config import ControlConfig
from kai_ray.encode import Encoder
from kai_ray.encode.zone_rows import ZoneRules
from kai_ray.scheduler.zones.facts import Unit, ZonePolicy, Zones
from tests.control import objects
from tests.control.encoding import NOW
from tests.control.world import World

ZONES = {
    "policy": "single-numa",
    "scope": "pod",
    "zones": [
        {"name": "node-0", "cpu": "4", "nvidia.com/gpu": 1},
        {"name": "node-1", "cpu": "4", "nvidia.com/gpu": 1},
    ],
    "links": [{"name": "nv-0", "nvidia.com/gpu": 2}],
}


def node(name: str, zones: Any = ZONES, gpus: int = 2) -> dict[str, Any]:
    made = objects.node(name, gpus)
    if zones is not None:
        text = zones if isinstance(zones, str) else json.dumps(zones)
        made["metadata"]["annotations"] = {names.NODE_ZONES: text}
    return made


def topology(name: str, **more: Any) -> dict[str, Any]:
    zones = [
        {
            "name": f"node-{i}",
            "type": "Node",
            "resources": [
                {"name": "cpu", "capacity": "4", "allocatable": "4", "available": "4"},
                {"name": "nvidia.com/gpu", "capacity": "1", "allocatable": "1", "available": "1"},
            ],
        }
        for i in (10, 2)
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "zones": zones,
        **more,
    }


def pod(name: str, cpu: str = "3", gpus: int = 0, **more: Any) -> dict[str, Any]:
    made = objects.pod(name, "g", gpus=gpus)
    asked = {"cpu": cpu, "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    made["spec"]["containers"][0]["resources"] = {"requests": asked, "limits": asked}
    made["spec"] |= more.pop("spec", {})
    made["metadata"].setdefault("annotations", {}).update(more.pop("annotations", {}))
    return made


def encoded(*objects_: tuple[Any, dict[str, Any]]) -> Any:
    encoder = Encoder()
    encoder.apply(kinds.QUEUE, None, objects.queue("team"))
    encoder.apply(kinds.POD_GROUP, None, objects.podgroup("g"))
    for kind, obj in objects_:
        encoder.apply(kind, None, obj)
    return encoder.snapshot(NOW)


def test_a_node_tells_of_its_cells_by_annotation() -> None:
    got = encoded((kinds.NODE, node("a")), (kinds.POD, pod("p", gpus=1)))
    zones, links = got.snapshot.zones, got.snapshot.links
    assert zones.count.tolist() == [2]
    assert zones.policy.tolist() == [ZonePolicy.SINGLE]
    assert zones.per_container.tolist() == [False]
    assert [got.snapshot.resources[r] for r in zones.rows] == ["cpu", "gpu"]
    assert zones.allocatable[:, :, 0].tolist() == [[4000, 1], [4000, 1]]
    assert zones.pod_unit == (Unit((3000, 1)),)
    assert links.allocatable[:, :, 0].tolist() == [[2]]


@pytest.mark.parametrize(
    ("more", "policy", "per_container"),
    [
        (
            {
                "attributes": [
                    {"name": "topologyManagerPolicy", "value": "restricted"},
                    {"name": "topologyManagerScope", "value": "pod"},
                ]
            },
            ZonePolicy.RESTRICTED,
            False,
        ),
        ({"topologyPolicies": ["SingleNUMANodePodLevel"]}, ZonePolicy.SINGLE, False),
        ({"topologyPolicies": ["BestEffort"]}, ZonePolicy.BEST_EFFORT, True),
        ({"topologyPolicies": ["Somehow"]}, ZonePolicy.NONE, True),
        ({}, ZonePolicy.NONE, True),
    ],
)
def test_an_object_of_the_nodes_name_tells_of_its_cells(
    more: dict[str, Any], policy: ZonePolicy, per_container: bool
) -> None:
    objects_ = [(kinds.NODE, node("a", None)), (kinds.POD, pod("p", gpus=1))]
    got = encoded(*objects_, (kinds.NODE_ZONES, topology("a", **more)))
    zones = got.snapshot.zones
    assert zones.policy.tolist() == [policy]
    assert zones.per_container.tolist() == [per_container]
    assert [zone.name for zone in got.names.zones["a"].zones] == ["node-2", "node-10"]


def test_where_nobody_tells_or_asks_there_is_no_table() -> None:
    got = encoded((kinds.NODE, node("a", None)), (kinds.POD, pod("p")))
    assert got.snapshot.zones is None
    assert got.snapshot.links is None


@pytest.mark.parametrize(
    ("made", "unit"),
    [
        (pod("p", "3"), Unit((3000, 0))),
        (pod("p", "3500m", gpus=1), Unit((0, 1))),  # no whole CPUs
        (objects.pod("p", "g", gpus=1), Unit((0, 1))),  # burstable: its devices only
        (objects.pod("p", "g", gpus=0), None),
    ],
)
def test_what_of_a_pod_is_aligned(made: dict[str, Any], unit: Unit | None) -> None:
    got = encoded((kinds.NODE, node("a")), (kinds.POD, made), (kinds.POD, pod("q", gpus=1)))
    klass = int(got.snapshot.tasks.klass[0])
    assert got.snapshot.zones.pod_unit[klass] == unit


def test_containers_are_units_and_init_containers_take_turns() -> None:
    made = pod("p", "2")
    one = made["spec"]["containers"][0]
    made["spec"]["containers"] = [one, {**one, "name": "b"}]
    made["spec"]["initContainers"] = [
        {**one, "name": "i"},
        {**one, "name": "s", "restartPolicy": "Always"},
    ]
    got = encoded((kinds.NODE, node("a")), (kinds.POD, made), (kinds.POD, pod("q", gpus=1)))
    klass = int(got.snapshot.tasks.klass[0])
    zones = got.snapshot.zones
    assert zones.pod_unit[klass] == Unit((6000, 0))  # sidecar and two containers
    assert [unit.serial for unit in zones.units[klass]] == [False, False, False, True]


def test_pods_hold_the_cells_that_were_observed_else_predicted() -> None:
    def note(zone: str) -> str:
        return json.dumps([{"zone": zone, "amount": {"cpu": "3"}}])

    rows = {
        "both": {names.NUMA_OBSERVED: note("node-1"), names.NUMA_PREDICTED: note("node-0")},
        "said": {names.NUMA_PREDICTED: note("node-0")},
        "gone": {names.NUMA_OBSERVED: note("node-7")},
        "none": {names.NUMA_OBSERVED: "{not json"},
    }
    pods = [
        (kinds.POD, pod(name, annotations=notes, spec={"nodeName": "a"}))
        for name, notes in rows.items()
    ]
    got = encoded((kinds.NODE, node("a")), *pods)
    zones = got.snapshot.zones
    held = {got.names.pod(t).name: z for t, z in zip(zones.hold_task, zones.hold_zone, strict=True)}
    assert held == {"both": 1, "said": 0}
    assert zones.available[:, 0, 0].tolist() == [1000, 1000]


@pytest.mark.parametrize(
    "bad",
    [
        "{",
        "[]",
        {"policy": "tight"},
        {"scope": "node"},
        {"zones": ["a"]},
        {"zones": [{"name": "a", "cpu": "-1"}]},
        {"zones": [{"name": "a"}, {"name": "a"}]},
        {"links": [{"name": str(i)} for i in range(65)]},
    ],
)
def test_a_bad_annotation_of_a_node_is_named_and_the_node_takes_nothing(bad: Any) -> None:
    got = encoded((kinds.NODE, node("a", bad)), (kinds.NODE, node("b", None)))
    assert [(p.kind, p.name) for p in got.problems] == [("Node", "a")]
    assert got.snapshot.nodes.ready.tolist() == [False, True]


def test_a_policy_that_is_none_is_refused_with_the_mend() -> None:
    made = pod("p", annotations={names.NODE_TOPOLOGY_POLICY: "tight"})
    got = encoded((kinds.NODE, node("a")), (kinds.POD, made))
    assert "is none of best-effort, restricted, single-numa, nvlink" in got.problems[0].mend


def test_pods_are_bound_to_cells_and_carry_the_prediction() -> None:
    world = World(nodes=0)
    world.store.create(kinds.NODE, node("a"))
    world.queue("team")
    world.store.create(kinds.POD_GROUP, objects.podgroup("g", minimum=1))
    for name in ("p", "q", "r"):
        world.store.create(kinds.POD, pod(name))
    world.run(2.0)
    told = {
        p["metadata"]["name"]: json.loads(p["metadata"]["annotations"][names.NUMA_PREDICTED])
        for p in world.pods()
        if p["spec"].get("nodeName")
    }
    assert sorted(piece[0]["zone"] for piece in told.values()) == ["node-0", "node-1"]
    assert len(told) == 2
    assert "NumaUnaligned" in str(world.group("g")["status"])


def test_a_bind_request_predicts_cells_and_its_bind_says_so() -> None:
    world = World(nodes=0, config=ControlConfig(period_s=0.05, bind_requests="always"))
    world.store.create(kinds.NODE, node("a"))
    world.queue("team")
    world.store.create(kinds.POD_GROUP, objects.podgroup("g", minimum=1))
    world.store.create(kinds.POD, pod("p"))
    asked: list[Any] = []

    def bound() -> bool:
        asked.extend(world.store.list(kinds.BIND_REQUEST).items)
        return bool(world.placed())

    assert world.until(bound, 10)
    (zone,) = asked[0]["spec"]["predictedNUMAZones"]
    assert zone["zone"] in ("node-0", "node-1")
    assert zone["amount"]["cpu"] == "3000m"
    (found,) = world.pods()
    assert json.loads(found["metadata"]["annotations"][names.NUMA_PREDICTED]) == [zone]


def test_a_bind_request_that_is_under_way_holds_its_zones() -> None:
    """One that another of KAI's tools made: the pod itself says nothing yet."""
    spec = {
        "podName": "p",
        "selectedNode": "n",
        "predictedNUMAZones": [{"zone": "node-2", "amount": {"cpu": "3"}}],
    }
    made = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    found = encoded(
        (kinds.NODE, objects.node("n", 2)),
        (kinds.NODE_ZONES, topology("n")),
        (kinds.POD, pod("p")),
        (kinds.BIND_REQUEST, made),
    ).snapshot.zones
    assert found.available[:, 0, 0].tolist() == [1000, 4000]


def test_linked_gpus_are_asked_for_by_annotation() -> None:
    world = World(nodes=0)
    links = {"links": [{"name": "x", "nvidia.com/gpu": 2}, {"name": "y", "nvidia.com/gpu": 2}]}
    world.store.create(kinds.NODE, node("a", links, gpus=4))
    world.queue("team")
    world.store.create(kinds.POD_GROUP, objects.podgroup("g", minimum=1))
    notes = {names.NODE_TOPOLOGY_POLICY: "nvlink"}
    world.store.create(kinds.POD, pod("one", gpus=1))
    world.store.create(kinds.POD, pod("two", gpus=2, annotations=notes))
    world.store.create(kinds.POD, pod("zip", gpus=3, annotations=notes))
    world.run(2.0)
    assert set(world.placed()) == {"one", "two"}
    assert "GpusNotLinked" in str(world.group("g")["status"])


def test_a_queue_says_how_pods_are_aligned_that_do_not_say_it_themselves() -> None:
    world = World(nodes=0)
    lax = {**ZONES, "policy": "none"}
    world.store.create(kinds.NODE, node("a", lax))
    strict = objects.queue("team")
    strict["metadata"]["annotations"] = {names.NODE_TOPOLOGY_POLICY: "single-numa"}
    world.store.create(kinds.QUEUE, strict)
    world.store.create(kinds.POD_GROUP, objects.podgroup("g", minimum=1))
    world.store.create(kinds.POD, pod("large", cpu="6"))
    own = {names.NODE_TOPOLOGY_POLICY: "best-effort"}
    world.store.create(kinds.POD, pod("free", cpu="6", annotations=own))
    world.run(2.0)
    assert set(world.placed()) == {"free"}


def test_a_bind_that_is_not_seen_yet_holds_its_zones() -> None:
    encoder = Encoder()
    encoder.apply(kinds.NODE, None, node("a"))
    encoder.apply(kinds.QUEUE, None, objects.queue("team"))
    encoder.apply(kinds.POD_GROUP, None, objects.podgroup("g"))
    made = pod("p")
    made["metadata"]["uid"] = "u"
    encoder.apply(kinds.POD, None, made)
    key = encoder.snapshot(NOW).names.pod(0)
    told = json.dumps([{"zone": "node-1", "amount": {"cpu": "3"}}])
    encoder.assume(key, "u", "a", (), ((names.NUMA_PREDICTED, told),))
    held = encoder.snapshot(NOW).snapshot.zones
    assert held is not None
    assert held.available[:, 0, 0].tolist() == [4000, 1000]
    encoder.forget(key)
    free = encoder.snapshot(NOW).snapshot.zones
    assert free is not None
    assert free.available[:, 0, 0].tolist() == [4000, 4000]


# ---------------------------------------------------------------------- settings of the shard


def read_by(rules: ZoneRules, reported: dict[str, Any]) -> Zones | None:
    encoder = Encoder()
    encoder.use_zones(rules)
    encoder.apply(kinds.QUEUE, None, objects.queue("team"))
    encoder.apply(kinds.POD_GROUP, None, objects.podgroup("g"))
    encoder.apply(kinds.NODE, None, objects.node("n", 2))
    encoder.apply(kinds.NODE_ZONES, None, reported)
    encoder.apply(kinds.POD, None, pod("p", gpus=1))
    return encoder.snapshot(NOW).snapshot.zones


def reported() -> dict[str, Any]:
    """An object by which half of the first zone's processors are taken."""
    found = topology("n")
    found["zones"][1]["resources"][0]["available"] = "2"
    return found


def test_what_an_object_says_is_available_counts_where_it_is_believed() -> None:
    own, believed = (read_by(ZoneRules(rebuilt=rebuilt), reported()) for rebuilt in (True, False))
    assert own is not None and believed is not None
    assert own.available[:, 0, 0].tolist() == [4000, 4000]
    assert believed.available[:, 0, 0].tolist() == [2000, 4000]


def test_ignored_resources_are_not_aligned() -> None:
    found = read_by(ZoneRules(ignored=frozenset({"nvidia.com/gpu"})), reported())
    assert found is not None
    assert len(found.rows) == 1  # processors alone


def test_objects_are_passed_over_where_the_plugin_is_off() -> None:
    assert read_by(ZoneRules(known=False), reported()) is None

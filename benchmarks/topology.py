"""Gangs that must have a rack each, and one gang of many units, each of which must have one.

Racks hold 8 nodes, zones 8 racks. Half of the cluster goes to the one gang of units of 8 pods, the
rest to gangs of 24 pods; as many more gangs wait because no rack has room for them.
"""

from __future__ import annotations

from typing import Any

from benchmarks.cluster import GPUS, JobShape, Object, listed, queue, timed
from benchmarks.measure import Figures

OPTIONS = {"nodes": 512}
RACK, ZONE = 8, 8
UNIT, GANG = 8, 24


def sizes(options: dict[str, Any]) -> dict[str, int]:
    nodes = options["nodes"]
    return {"nodes": nodes, "units": _units(nodes), "gangs": _gangs(nodes)}


def _units(nodes: int) -> int:
    return nodes * GPUS // 2 // UNIT


def _gangs(nodes: int) -> int:
    return 2 * (nodes * GPUS // 2 // GANG)


def run(figures: Figures, options: dict[str, Any]) -> None:
    from kai_ray.cluster import resources

    nodes = options["nodes"]
    units = _units(nodes)
    jobs = [JobShape("units", "team", -(10**6), units * UNIT)]
    jobs += [JobShape(f"gang-{i:05}", "team", i - 10**5, GANG) for i in range(_gangs(nodes))]
    world = listed(nodes, [queue("team", "", -1, 1, 0)], jobs)
    for resource, objects in world:
        if resource == resources.NODE:
            for i, one in enumerate(objects):
                one["metadata"]["labels"] |= {
                    "rack": f"r{i // RACK:05}",
                    "zone": f"z{i // RACK // ZONE:05}",
                }
        if resource == resources.POD_GROUP:
            for one in objects:
                _bind(one, units)
        if resource == resources.POD:
            for k, one in enumerate(objects[: units * UNIT]):
                one["metadata"]["labels"]["kai.scheduler/subgroup-name"] = f"u{k // UNIT:05}"
    world.insert(0, (resources.TOPOLOGY, [_topology()]))
    timed(figures, world)


def _topology() -> Object:
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "dc"},
        "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]},
    }


def _bind(group: Object, units: int) -> None:
    """A rack for each gang; for the gang of units, one for each unit."""
    rack = {"topology": "dc", "requiredTopologyLevel": "rack"}
    if group["metadata"]["name"] != "units":
        group["spec"]["topologyConstraint"] = rack
        return
    del group["spec"]["minMember"]
    group["spec"]["subGroups"] = [
        {"name": f"u{i:05}", "minMember": UNIT, "topologyConstraint": rack} for i in range(units)
    ]

"""Topologies whose names are clear, and constraints that name what exists (KAI 0.17, Topology)."""

from __future__ import annotations

from typing import Any

from kai_ray.admission.refusal import cause, refusal
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import AdmissionRequest, NotFound, Object, Port
from kai_ray.encode import topologies
from kai_ray.encode.problems import MISREAD, Malformed


class TopologyAdmission:
    """No two levels go by one name; the rest is in the definition's own rules."""

    resources = frozenset({kinds.TOPOLOGY})

    def admit(self, request: AdmissionRequest, reader: Port) -> Object:
        topology = request.object
        if request.operation == "DELETE":
            return topology
        try:
            topologies.read(topology)
        except Malformed as error:
            name = topology["metadata"].get("name") or ""
            raise refusal(kinds.TOPOLOGY, name, [cause(error.field, error.mend)]) from None
        except MISREAD:
            pass  # the schema says better what is wrong with it
        return topology


def constraint_causes(spec: dict[str, Any], reader: Port) -> list[Object]:
    """What is wrong with the topology constraints of a PodGroup.

    A Topology that does not exist may come later: its gang waits and is told so. A level that an
    existing one does not have never comes: its node labels cannot be changed.
    """
    places = [("spec.topologyConstraint", spec.get("topologyConstraint"))]
    places += [
        (f"spec.subGroups[{i}].topologyConstraint", sub.get("topologyConstraint"))
        for i, sub in enumerate(spec.get("subGroups") or ())
        if isinstance(sub, dict)
    ]
    causes: list[Object] = []
    known: dict[str, tuple[topologies.Level, ...] | None] = {}
    for field, raw in places:
        try:
            bond = topologies.bond(raw, field)
        except Malformed as error:
            causes.append(cause(error.field, error.mend))
            continue
        if bond is None:
            continue
        if bond.topology not in known:
            known[bond.topology] = _levels(bond.topology, reader)
        levels = known[bond.topology]
        if levels is not None:
            causes += _level_causes(bond, levels, field)
    return causes


def _level_causes(
    bond: topologies.Bond, levels: tuple[topologies.Level, ...], field: str
) -> list[Object]:
    stated = {
        "requiredTopologyLevel": bond.required,
        "preferredTopologyLevel": bond.preferred,
    }
    place = {name: i for i, level in enumerate(levels) for name in level if name}
    causes = [
        cause(
            f"{field}.{key}",
            f"{name!r} is no level of Topology {bond.topology}: use {', '.join(place)}",
            "FieldValueNotFound",
        )
        for key, name in stated.items()
        if name and name not in place
    ]
    both = not causes and bond.required and bond.preferred
    if both and place[bond.required] > place[bond.preferred]:
        mend = (
            f"{bond.required!r} is narrower than the preferred level {bond.preferred!r}, which "
            "then says nothing: require the wider of the two, or leave the preferred one out"
        )
        causes.append(cause(f"{field}.requiredTopologyLevel", mend))
    return causes


def _levels(name: str, reader: Port) -> tuple[topologies.Level, ...] | None:
    try:
        return topologies.read(reader.get(kinds.TOPOLOGY, name))
    except (NotFound, Malformed, *MISREAD):
        return None

"""Pods that the user puts into a PodGroup of their own: annotation pod-group-name."""

from __future__ import annotations

from dataclasses import replace

from kai_ray.api import labels as keys

from .build import build_group
from .groups import Group, Member, Owner, SubGroup, Topology
from .kinds.default import members_of
from .values import GroupError, Object, annotations_of, count, labels, mapping, sequence, text
from .workload import Workload


def external_group(w: Workload, template: Object) -> Group | None:
    """The user's PodGroup with this workload's pods, None where the template names none."""
    name = annotations_of(template).get(keys.POD_GROUP)
    if not name:
        return None
    found = w.reader.get("scheduling.run.ai/v2alpha2", "PodGroup", name, w.namespace)
    if found is None:
        raise GroupError(
            f"metadata.annotations[{keys.POD_GROUP}]",
            f"PodGroup {name!r} is not known",
            "create it, or name its file too",
        )
    leaf = labels(template).get(keys.SUBGROUP)
    members = members_of(w.subject) or (Member("pod", template, 1),)
    spec = mapping(found, "spec")
    group = build_group(
        w.about(w.subject),
        name=name,
        owner=Owner(),
        min_member=count(spec, "minMember", None),
        min_sub_group=count(spec, "minSubGroup", None),
        sub_groups=[_sub_group(raw, i) for i, raw in enumerate(sequence(spec, "subGroups"))],
        members=[replace(m, subgroup=leaf) for m in members],
        topology=_topology(mapping(spec, "topologyConstraint")),
    )
    return replace(
        group,
        queue=text(spec, "queue") or group.queue,
        priority_class=text(spec, "priorityClassName") or group.priority_class,
        sources={**group.sources, "queue": f"PodGroup {name}"},
    )


def _sub_group(raw: Object, index: int) -> SubGroup:
    field = f"spec.subGroups[{index}]"
    if not isinstance(raw, dict):
        raise GroupError(field, "is not an object", "write a subgroup there")
    constraint = _topology(mapping(raw, "topologyConstraint", field))
    return SubGroup(
        text(raw, "name", field),
        count(raw, "minMember", None, field),
        text(raw, "parent", field) or None,
        count(raw, "minSubGroup", None, field),
        constraint or None,
    )


def _topology(raw: Object) -> Topology:
    return Topology(
        text(raw, "topology"),
        text(raw, "requiredTopologyLevel"),
        text(raw, "preferredTopologyLevel"),
    )

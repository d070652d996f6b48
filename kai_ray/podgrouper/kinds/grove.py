"""Grove (PodCliqueSet, PodGangSet): the PodGang of a pod says what starts together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kai_ray.api import labels as keys
from kai_ray.podgrouper import fields
from kai_ray.podgrouper.build import build_group, soft_template
from kai_ray.podgrouper.groups import Group, Member, SubGroup, Topology
from kai_ray.podgrouper.values import (
    GroupError,
    Object,
    annotations_of,
    count,
    dig,
    labels,
    mapping,
    name_of,
    namespace_of,
    sequence,
    text,
)
from kai_ray.podgrouper.workload import UNKNOWN_UID, Place, Rule, Workload

POD_GANG = "grove.io/podgang"
TOPOLOGY_NAME = "grove.io/topology-name"
API = "scheduler.grove.io/v1alpha1"


def grove_groups(w: Workload) -> list[Group]:
    if w.planning:
        return _planned(w)
    if w.pod is None:
        return []
    name = labels(w.pod).get(POD_GANG, "")
    if not name:
        raise GroupError(f"metadata.labels[{POD_GANG}]", "is missing", "let Grove make the pod")
    gang = w.reader.get(API, "PodGang", name, namespace_of(w.pod))
    if gang is None:
        raise GroupError(
            f"metadata.labels[{POD_GANG}]", f"PodGang {name!r} cannot be read", "wait for Grove"
        )
    return [gang_group(w, gang)]


def gang_group(w: Workload, gang: Object, members: tuple[Member, ...] = ()) -> Group:
    """The group of one PodGang; labels of the top owner decide where the gang does not."""
    topology = annotations_of(gang).get(TOPOLOGY_NAME) or annotations_of(gang).get(
        keys.TOPOLOGY, ""
    )
    parents, above = _parents(gang, topology)
    leaves: list[SubGroup] = []
    for i, raw in enumerate(sequence(gang, "spec.podgroups")):
        field = f"spec.podgroups[{i}]"
        name = text(raw, "name", field)
        floor = count(raw, "minReplicas", None, field)
        if not name or not floor:
            what = "name" if not name else "minReplicas"
            raise GroupError(f"{field}.{what}", "is missing or 0", "let Grove fill it in")
        for reference in sequence(raw, "podReferences", field):
            _same_namespace(gang, reference, field)
        constraint = _constraint(raw, topology, field)
        leaves.append(SubGroup(name, floor, above.get(name), topology=constraint))
    total = sum(leaf.min_member or 0 for leaf in leaves)
    priority = text(gang, "spec.priorityClassName")
    upper = w.top
    return build_group(
        replace(w, subject=gang, owners=(gang, upper) if upper is not gang else (gang,)),
        min_member=total,
        sub_groups=[*parents, *leaves],
        topology=_constraint(gang.get("spec"), topology, "spec") or Topology(),
        members=members,
        forced_priority=priority if _exists(w, priority) else "",
    )


def _exists(w: Workload, priority: str) -> bool:
    kind = ("scheduling.k8s.io/v1", "PriorityClass")
    return bool(priority) and (
        priority in fields.KNOWN_PRIORITIES or w.reader.get(*kind, priority) is not None
    )


def _same_namespace(gang: Object, reference: Any, field: str) -> None:
    namespace = text(reference, "namespace", f"{field}.podReferences")
    if namespace and namespace != namespace_of(gang):
        raise GroupError(
            f"{field}.podReferences",
            f"names a pod of namespace {namespace!r}",
            "keep the gang's pods in its namespace",
        )


def _parents(gang: Object, topology: str) -> tuple[list[SubGroup], dict[str, str]]:
    found: list[SubGroup] = []
    above: dict[str, str] = {}
    for i, raw in enumerate(sequence(gang, "spec.topologyConstraintGroupConfigs")):
        field = f"spec.topologyConstraintGroupConfigs[{i}]"
        name = text(raw, "name", field)
        children = [str(c) for c in sequence(raw, "podGroupNames", field)]
        constraint = _constraint(raw, topology, field)
        found.append(SubGroup(name, min_sub_group=len(children), topology=constraint))
        above.update(dict.fromkeys(children, name))
    return found, above


def _constraint(raw: Any, topology: str, field: str) -> Topology | None:
    pack = mapping(raw, "topologyConstraint.packConstraint", field)
    required, preferred = text(pack, "required", field), text(pack, "preferred", field)
    if not topology or not (required or preferred):
        return None
    return Topology(topology, required, preferred)


def place_grove_pod(w: Workload, pod: Object, groups: Sequence[Group]) -> Place:
    gang = w.reader.get(API, "PodGang", labels(pod).get(POD_GANG, ""), namespace_of(pod))
    for raw in sequence(gang or {}, "spec.podgroups"):
        for reference in dig(raw, "podReferences") or ():
            if isinstance(reference, dict) and reference.get("name") == name_of(pod):
                return Place(groups[0].name, str(raw.get("name")))
    return Place(groups[0].name)


def _planned(w: Workload) -> list[Group]:
    """A gang for each replica of the set, a subgroup for each clique."""
    replicas = count(w.subject, "spec.replicas", 1)
    cliques = sequence(w.subject, "spec.template.cliques")
    if not cliques:
        raise GroupError("spec.template.cliques", "is empty", "write at least one clique")
    found: list[Group] = []
    for index in range(1 if replicas is None else replicas):
        rows: list[Object] = []
        members: list[Member] = []
        for i, raw in enumerate(cliques):
            at = f"spec.template.cliques[{i}]"
            name = f"{name_of(w.subject)}-{index}-{text(raw, 'name', at)}"
            pods = count(raw, "spec.replicas", 1, at) or 1
            floor = count(raw, "spec.minAvailable", pods, at)
            rows.append({"name": name, "minReplicas": floor})
            members.append(Member(name, {"spec": soft_template(raw, "spec.podSpec")}, pods, name))
        gang: Object = {
            "apiVersion": API,
            "kind": "PodGang",
            "metadata": {
                "name": f"{name_of(w.subject)}-{index}",
                "namespace": namespace_of(w.subject),
                "uid": UNKNOWN_UID,
                "annotations": annotations_of(w.subject),
            },
            "spec": {"podgroups": rows},
        }
        found.append(gang_group(w, gang, tuple(members)))
    return found


RULE = Rule(grove_groups, place_grove_pod, per_pod=True)

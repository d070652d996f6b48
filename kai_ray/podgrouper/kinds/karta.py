"""Kinds that a Karta describes: which parts they have, how many pods each, which start together.

A Karta (run.ai/v1alpha1) names the kind in three labels and in its root component. Of its jq only
paths are understood; a definition that asks for more is refused in words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from kai_ray.podgrouper.build import build_group
from kai_ray.podgrouper.groups import Group, Member, SubGroup, Topology
from kai_ray.podgrouper.paths import values_at
from kai_ray.podgrouper.values import (
    GroupError,
    Object,
    dig,
    group_of,
    kind_of,
    labels,
    metadata,
    name_of,
    sequence,
    text,
    uid_of,
    whole,
)
from kai_ray.podgrouper.workload import Place, Rule, Workload

API = "run.ai/v1alpha1"
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DEEPEST = 16


def find(w: Workload) -> Object | None:
    """The only Karta with gang-scheduling instructions for the kind of the subject."""
    api_version, kind = kind_of(w.subject)
    group, version = group_of(api_version), api_version.rpartition("/")[2]
    wanted = {
        "run.ai/karta-group": group,
        "run.ai/karta-version": version,
        "run.ai/karta-kind": kind,
    }
    fitting = [
        karta
        for karta in w.reader.list(API, "Karta", "", wanted)
        if all(labels(karta).get(k, "") == v for k, v in wanted.items())
        and not metadata(karta).get("deletionTimestamp")
        and _is_usable(karta, (group, version, kind))
    ]
    return fitting[0] if len(fitting) == 1 else None


def _is_usable(karta: Object, wanted: tuple[str, str, str]) -> bool:
    """Whether the root component is of that group, version and kind, and gangs are asked for."""
    try:
        root = dig(karta, "spec.structureDefinition.rootComponent.kind")
        gangs = _gangs(karta)
    except GroupError:
        return False
    if not isinstance(root, dict) or not gangs:
        return False
    return (root.get("group") or "", root.get("version"), root.get("kind")) == wanted


def _gangs(karta: Object) -> Object:
    spec = karta.get("spec")
    for part in ("optimizationInstructions", "instructions"):
        found = dig(spec, f"{part}.gangScheduling")
        if isinstance(found, dict) and (found.get("podGroup") or found.get("podGroups")):
            return found
    return {}


class Structure:
    """The tree of components of one Karta, measured on one object."""

    def __init__(self, karta: Object, obj: Object) -> None:
        self.name = f"Karta {name_of(karta)}"
        self.obj = obj
        root = dig(karta, "spec.structureDefinition.rootComponent") or {}
        children = sequence(karta, "spec.structureDefinition.childComponents")
        parts = [p for p in (root, *children) if isinstance(p, dict)]
        self.root = str(root.get("name") or "")
        self.parts = {str(p.get("name")): p for p in parts}
        self.children: dict[str, list[str]] = {}
        for part in parts[1:]:
            above = str(part.get("ownerRef") or part.get("ownerName") or self.root)
            self.children.setdefault(above, []).append(str(part.get("name")))

    def part(self, name: str) -> Object:
        found = self.parts.get(name)
        if found is None:
            raise GroupError(self.name, f"has no component {name!r}", "name one that it describes")
        return found

    def scale(self, name: str, instance: str | None = None, depth: int = 0) -> int:
        """Pods below a component: its own number times that of its children; 0: nobody says."""
        if depth > _DEEPEST:
            raise GroupError(self.name, "has components that own each other", "break the circle")
        own = self._own_scale(name, instance if depth == 0 else None)
        below = sum(self.scale(child, None, depth + 1) for child in self.children.get(name, ()))
        return own * below if own and below else own or below

    def _own_scale(self, name: str, instance: str | None) -> int:
        part = self.part(name)
        numbers = self._numbers(part, "minReplicasPath")
        stated = self._numbers(part, "replicasPath")
        each = [
            (numbers[i] if i < len(numbers) and numbers[i] else stated[i] if i < len(stated) else 0)
            for i in range(max(len(numbers), len(stated)))
        ]
        path = part.get("instanceIdPath")
        if instance is None or len(each) < 2 or not isinstance(path, str):
            return sum(each)
        names = [str(v) for v in values_at(self.obj, path, f"{self.name} instanceIdPath")]
        if instance not in names:
            raise GroupError(self.name, f"finds no instance {instance!r}", "name one of the object")
        return each[names.index(instance)]

    def _numbers(self, part: Object, key: str) -> list[int]:
        path = dig(part, f"scaleDefinition.{key}")
        if not isinstance(path, str):
            return []
        field = f"{self.name} {part.get('name')}.{key}"
        return [whole(v, field) for v in values_at(self.obj, path, field)]

    def holds(self, name: str, pod: Object, depth: int = 0) -> bool:
        """Whether a pod is of the component or of one below it."""
        return (depth <= _DEEPEST and self.selects(name, pod)) or any(
            self.holds(child, pod, depth + 1) for child in self.children.get(name, ())
        )

    def selects(self, name: str, pod: Object) -> bool:
        selector = dig(self.part(name), "podSelector.componentTypeSelector")
        path = selector.get("keyPath") if isinstance(selector, dict) else None
        if not isinstance(path, str):
            return False
        found = values_at(pod, path, f"{self.name} {name}.podSelector")
        wanted = selector.get("value")
        return bool(found) and (not wanted or wanted in found)

    def component_of(self, pod: Object) -> str:
        return next((name for name in self.parts if self.selects(name, pod)), "")

    def template(self, name: str) -> Object:
        path = dig(self.part(name), "specDefinition.podTemplateSpecPath")
        found = values_at(self.obj, path, self.name) if isinstance(path, str) else []
        return found[0] if found and isinstance(found[0], dict) else {}


def _structure(w: Workload) -> tuple[Structure, Object]:
    karta = find(w)
    assert karta is not None
    return Structure(karta, w.subject), _gangs(karta)


def karta_groups(w: Workload) -> list[Group]:
    parts, gangs = _structure(w)
    one = gangs.get("podGroup")
    if isinstance(one, dict):
        return [_whole_group(w, parts, one)]
    if w.pod is None:
        return [build_group(w, name=_name(w, []), min_member=parts.scale(parts.root))]
    component, member = _member(parts, gangs, w.pod)
    paths = member.get("groupByKeyPaths")
    names: list[str] = []
    for path in paths if isinstance(paths, list) else ():
        found = values_at(w.pod, str(path), f"{parts.name} groupByKeyPaths")
        if len(found) != 1:
            raise GroupError(parts.name, f"{path!r} gives no key of the pod", "label the pod")
        names.append(str(found[0]))
    name = _name(w, names)
    if not _SUBDOMAIN.fullmatch(name):
        raise GroupError(
            parts.name, f"gives the name {name!r}", "group by keys in lower case, with - and . only"
        )
    least = parts.scale(component, _instance(parts, component, w.pod))
    return [build_group(w, name=name, min_member=least)]


def _whole_group(w: Workload, parts: Structure, stated: Object) -> Group:
    tree: list[SubGroup] = []
    members: list[Member] = []
    for raw in sequence(stated, "subGroups", parts.name):
        component = text(raw, "componentName", parts.name)
        pods = parts.scale(component)
        if not pods:
            raise GroupError(
                parts.name, f"says no number for {component!r}", "give it a scaleDefinition"
            )
        tree.append(SubGroup(component, pods, topology=_topology(parts, raw)))
        members.append(Member(component, parts.template(component), pods, component))
    group = build_group(
        w,
        name=_name(w, [text(stated, "name", parts.name)]),
        min_member=None if tree else parts.scale(parts.root),
        min_sub_group=len(tree) if tree else None,
        sub_groups=tree,
        members=members,
    )
    constraint = _topology(parts, stated)
    return replace(group, topology=constraint) if constraint else group


def _topology(parts: Structure, raw: Object) -> Topology | None:
    stated = raw.get("topology")
    if not isinstance(stated, dict):
        return None
    found = Topology(
        text(stated, "topologyName") or text(stated, "topology"),
        text(stated, "requiredTopologyLevel"),
        text(stated, "preferredTopologyLevel"),
    )
    if not found.name or not (found.required or found.preferred):
        raise GroupError(f"{parts.name} topology", "names no topology or no level", "name both")
    return found


def _name(w: Workload, names: list[str]) -> str:
    return "-".join((f"pg-{uid_of(w.subject)}", *names))


def _member(parts: Structure, gangs: Object, pod: Object) -> tuple[str, Object]:
    """(component, member definition): the pod's own component, else the nearest above it."""
    members = {
        str(m.get("componentName")): m
        for group in gangs.get("podGroups") or ()
        if isinstance(group, dict)
        for m in group.get("members") or ()
        if isinstance(m, dict)
    }
    above = {child: name for name, below in parts.children.items() for child in below}
    component = parts.component_of(pod)
    for _ in range(_DEEPEST):
        if component in members:
            if members[component].get("filters"):
                raise GroupError(parts.name, "filters pods by an expression", "group by keys only")
            return component, members[component]
        component = above.get(component, "")
    raise GroupError(
        parts.name, f"does not say where pod {name_of(pod)} belongs", "select it in a component"
    )


def _instance(parts: Structure, component: str, pod: Object) -> str | None:
    if parts.component_of(pod) != component:
        return None
    path = dig(parts.part(component), "podSelector.componentInstanceSelector.idPath")
    found = values_at(pod, path, parts.name) if isinstance(path, str) else []
    return str(found[0]) if found else None


def place_karta_pod(w: Workload, pod: Object, groups: Sequence[Group]) -> Place:
    group = groups[0]
    if not group.sub_groups:
        return Place(group.name)
    parts, _ = _structure(w)
    leaf = next((s.name for s in group.sub_groups if parts.holds(s.name, pod)), None)
    return Place(group.name, leaf)


RULE = Rule(karta_groups, place_karta_pod, per_pod=True)

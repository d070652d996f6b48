"""PodGroups: a tree of subgroups that can be satisfied (KAI 0.17, PodGroup)."""

from __future__ import annotations

import re
from typing import Any

from kai_ray.admission.refusal import cause, refusal
from kai_ray.admission.topologies import constraint_causes
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import AdmissionRequest, Object, Port
from kai_ray.encode import traits
from kai_ray.encode.problems import Malformed
from kai_ray.encode.settings import EncodeConfig

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LARGEST = 2**31 - 1
_FEW = 10  # causes that are listed; more would only make the refusal long


class PodGroupAdmission:
    resources = frozenset({kinds.POD_GROUP})

    def __init__(self, config: EncodeConfig) -> None:
        self._config = config

    def admit(self, request: AdmissionRequest, reader: Port) -> Object:
        group = request.object
        if request.operation == "DELETE":
            return group
        if request.old is not None and request.old.get("spec") == group.get("spec"):
            return group
        causes = self.causes(group, created=request.operation == "CREATE")
        causes = causes or constraint_causes(group.get("spec") or {}, reader)
        if causes:
            name = group["metadata"].get("name") or ""
            raise refusal(kinds.POD_GROUP, name, causes[:_FEW])
        return group

    def causes(self, group: Object, *, created: bool) -> list[Object]:
        """What is wrong with a PodGroup."""
        spec: Any = group.get("spec") or {}
        if not isinstance(spec, dict):
            return [cause("spec", "must be an object")]
        causes = _both(spec, "spec")
        try:
            traits.read(group["metadata"])
        except Malformed as error:
            causes.append(cause(error.field, error.mend, "FieldValueNotSupported"))
        for key in ("minMember", "minSubGroup"):
            causes += _count(spec.get(key), f"spec.{key}")
        if spec.get("preemptibility") not in (None, "", "preemptible", "non-preemptible"):
            mend = f"{spec['preemptibility']!r} is neither preemptible nor non-preemptible"
            causes.append(cause("spec.preemptibility", mend, "FieldValueNotSupported"))
        subgroups = spec.get("subGroups") or []
        limit = self._config.max_subgroups
        if not isinstance(subgroups, list):
            return [*causes, cause("spec.subGroups", "must be a list")]
        if len(subgroups) > limit:
            mend = f"has {len(subgroups)} entries: at most {limit} are allowed, use larger ones"
            return [*causes, cause("spec.subGroups", mend, "FieldValueTooMany")]
        return causes + _tree(subgroups, created)


def _tree(subgroups: list[Any], created: bool) -> list[Object]:
    causes: list[Object] = []
    parent_of: dict[str, str] = {}
    for i, sub in enumerate(subgroups):
        path = f"spec.subGroups[{i}]"
        name = sub.get("name") if isinstance(sub, dict) else None
        if not isinstance(name, str) or not _LABEL.fullmatch(name):
            mend = f"{name!r} is not a DNS label: lower-case letters, digits and dashes"
            causes.append(cause(f"{path}.name", mend))
        elif name in parent_of:
            mend = f"{name!r} is there twice: rename one"
            causes.append(cause(f"{path}.name", mend, "FieldValueDuplicate"))
        else:
            parent_of[name] = sub.get("parent") or ""
    if causes:
        return causes
    inner = {parent for parent in parent_of.values() if parent}
    for i, sub in enumerate(subgroups):
        path = f"spec.subGroups[{i}]"
        parent = sub.get("parent")
        if parent and parent not in parent_of:
            mend = f"{parent!r} is not the name of a subgroup here: add it or name another"
            causes.append(cause(f"{path}.parent", mend, "FieldValueNotFound"))
        causes += _bounds(sub, path, sub["name"] in inner, created)
    return causes or _loops(parent_of)


def _bounds(sub: dict[str, Any], path: str, inner: bool, created: bool) -> list[Object]:
    causes = _both(sub, path)
    for key in ("minMember", "minSubGroup"):
        causes += _count(sub.get(key), f"{path}.{key}")
    if inner:
        if sub.get("minMember") is not None and created:
            mend = "a subgroup with children has no pods of its own: use minSubGroup"
            causes.append(cause(f"{path}.minMember", mend, "FieldValueForbidden"))
    else:
        if sub.get("minSubGroup") is not None:
            mend = "a subgroup without children holds pods: use minMember"
            causes.append(cause(f"{path}.minSubGroup", mend, "FieldValueForbidden"))
        if sub.get("minMember") is None:
            mend = "is required for a subgroup without children: 0 makes it optional"
            causes.append(cause(f"{path}.minMember", mend, "FieldValueRequired"))
    return causes


def _both(raw: dict[str, Any], path: str) -> list[Object]:
    if raw.get("minMember") is not None and raw.get("minSubGroup") is not None:
        mend = "cannot be given together with minMember: keep one"
        return [cause(f"{path}.minSubGroup", mend, "FieldValueForbidden")]
    return []


def _count(value: Any, path: str) -> list[Object]:
    if value is None:
        return []
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        return [cause(path, f"{value!r} is not an integer from 0 to {_LARGEST}")]
    return []


def _loops(parent_of: dict[str, str]) -> list[Object]:
    """Names that do not reach the root, in time linear in the tree."""
    safe: set[str] = set()
    for name in parent_of:
        path: list[str] = []
        seen: set[str] = set()
        at = name
        while at and at not in safe and at not in seen:
            path.append(at)
            seen.add(at)
            at = parent_of[at]
        if at in seen:
            text = " -> ".join([*path[path.index(at) :], at])
            return [cause("spec.subGroups", f"parents form a cycle ({text}): break it")]
        safe.update(path)
    return []

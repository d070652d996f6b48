"""What manifests become, without any cluster: the engine of `kai plan`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kai_ray.api import labels as keys

from .chains import is_skipped
from .claimed import claimed_devices
from .external import external_group
from .fields import KNOWN_PRIORITIES
from .groups import Group, SubGroup, Topology
from .manifests import Document, ManifestError, read_documents
from .planned import planned_groups, pod_template_of
from .podspec import Amounts, pod_requests, quantity_text, total_requests
from .values import GroupError, Object, group_of, kind_of, name_of, namespace_of, uid_of
from .workload import UNKNOWN_NAME, UNKNOWN_UID, Reader, Settings, Workload

__all__ = ["Gang", "ManifestError", "WorkloadPlan", "plan_documents", "plan_files"]

DEFAULT_NAMESPACE = "default"
_CLUSTER_SCOPED = {
    "ClusterTrainingRuntime",
    "Namespace",
    "PriorityClass",
    "Queue",
    "Topology",
}


@dataclass(frozen=True, slots=True)
class Gang:
    """One gang to be. `pods`, `requests`: all pods that the workload asks for now."""

    name: str
    min_member: int
    queue: str
    priority_class: str
    preemptible: bool
    topology: Topology | None
    sub_groups: tuple[SubGroup, ...]
    pods: int
    requests: dict[str, str]
    sources: dict[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()
    claims: dict[str, str] = field(default_factory=dict[str, str])
    """Devices that the pods claim, by name."""


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """One workload of a file. `error` names the field and the mend; then there are no gangs."""

    file: str
    api_version: str
    kind: str
    namespace: str
    name: str
    error: str | None
    gangs: tuple[Gang, ...]


class PlanReader:
    """Answers from the documents of the files, and with what every installation has."""

    def __init__(self, documents: Iterable[Object]) -> None:
        self._objects: dict[tuple[str, str, str, str], Object] = {}
        for name, value in KNOWN_PRIORITIES.items():
            self._add(_known("scheduling.k8s.io/v1", "PriorityClass", name, {"value": value}))
        for name in (keys.DEFAULT_QUEUE, keys.DEFAULT_PARENT_QUEUE):
            self._add(_known("scheduling.run.ai/v2", "Queue", name, {}))
        for document in documents:
            self._add(document)

    def _add(self, obj: Object) -> None:
        api_version, kind = kind_of(obj)
        space = "" if kind in _CLUSTER_SCOPED else namespace_of(obj) or DEFAULT_NAMESPACE
        self._objects[group_of(api_version), kind, space, name_of(obj)] = obj

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        space = "" if kind in _CLUSTER_SCOPED else namespace or DEFAULT_NAMESPACE
        return self._objects.get((group_of(api_version), kind, space, name))

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> Sequence[Object]:
        wanted = (group_of(api_version), kind)
        return [
            obj
            for (group, found, space, _), obj in self._objects.items()
            if (group, found) == wanted and namespace in ("", space)
        ]

    def owned(self, api_version: str, kind: str, uid: str) -> Sequence[Object]:
        return ()


def _known(api_version: str, kind: str, name: str, rest: Object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **rest}


def plan_files(paths: Iterable[str | Path], settings: Settings | None = None) -> list[WorkloadPlan]:
    """The plan of every workload in the files, in their order.

    All files are read before the first is planned, so that they may refer to each other. Documents
    that are no workload are left out. Raises ManifestError if a file cannot be read or parsed.
    """
    return plan_documents([d for path in paths for d in read_documents(path)], settings)


def plan_documents(
    documents: Sequence[Document], settings: Settings | None = None
) -> list[WorkloadPlan]:
    """The plan of every workload among the documents."""
    reader = PlanReader(d.object for d in documents)
    found: list[WorkloadPlan] = []
    for document in documents:
        plan = _plan(document, reader, settings or Settings())
        if plan is not None:
            found.append(plan)
    return found


def groups_to_be(obj: Object, reader: Reader, settings: Settings) -> list[Group] | None:
    """The groups of a workload that is about to be created, None for what is none.

    Raises GroupError.
    """
    obj = _as_created(obj)
    api_version, kind = kind_of(obj)
    pod = obj if kind == "Pod" and not api_version.partition("/")[2] else None
    return _groups(Workload(obj, (obj,), pod, reader, settings, planning=True))


def _plan(document: Document, reader: PlanReader, settings: Settings) -> WorkloadPlan | None:
    obj = _as_created(document.object)
    api_version, kind = kind_of(obj)
    error: str | None = None
    gangs: tuple[Gang, ...] = ()
    try:
        groups = groups_to_be(obj, reader, settings)
        if groups is None:
            return None
        gangs = tuple(_gangs(groups, reader, namespace_of(obj)))
    except GroupError as problem:
        error = str(problem)
    name, namespace = name_of(obj), namespace_of(obj)
    return WorkloadPlan(document.file, api_version, kind, namespace, name, error, gangs)


def _groups(w: Workload) -> list[Group] | None:
    """The groups of a workload, None for what is none; the user's own groups as they are."""
    template = pod_template_of(w.subject)
    stated = external_group(w, template)
    if stated is not None:
        return [stated]
    groups = planned_groups(w)
    if groups is not None and (is_skipped(w.subject) or is_skipped(template)):
        return []
    return groups


def _as_created(obj: Object) -> Object:
    """The object as an API server would keep it: a namespace, a name, a UID not known yet."""
    found = obj.get("metadata")
    meta: dict[str, Any] = dict(found) if isinstance(found, dict) else {}
    if not meta.get("name") and isinstance(meta.get("generateName"), str):
        meta["name"] = f"{meta['generateName']}{UNKNOWN_NAME}"
    for key, value in (("namespace", DEFAULT_NAMESPACE), ("uid", UNKNOWN_UID)):
        if not isinstance(meta.get(key), str) or not meta[key]:
            meta[key] = value
    if not isinstance(meta.get("name"), str):
        meta["name"] = ""
    assert uid_of({"metadata": meta})
    return {**obj, "metadata": meta}


def _gangs(groups: Sequence[Group], reader: Reader, namespace: str) -> Iterable[Gang]:
    """Equal groups (one per pod of a Deployment) are computed once."""
    known: dict[int, Gang] = {}
    for group in groups:
        gang = known.get(id(group))
        if gang is None:
            gang = known[id(group)] = _gang(group, reader, namespace)
        yield gang


def _gang(group: Group, reader: Reader, namespace: str) -> Gang:
    parts: list[tuple[Amounts, int]] = [
        (pod_requests(member.template, f"template of {member.role}"), member.count)
        for member in group.members
    ]
    total = total_requests(parts)
    return Gang(
        name=group.name,
        min_member=group.floor,
        queue=group.queue,
        priority_class=group.priority_class,
        preemptible=group.preemptible,
        topology=group.topology or None,
        sub_groups=group.sub_groups,
        pods=group.pods,
        requests={name: quantity_text(name, total[name]) for name in sorted(total)},
        sources=group.sources,
        notes=group.notes,
        claims=claimed_devices(
            [(member.template, member.count) for member in group.members], reader, namespace
        ),
    )

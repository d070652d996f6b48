"""The object that a user knows a gang by: its top owner."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import yaml

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import ApiError, Key, Object, Resource
from kai_ray.cluster.wrappers import Known, wrapper

#: A line of a note whose value is plainly nothing, a name or a UID.
_WORD = re.compile(
    r"(name|uid|group|version|kind): "
    r"(''|\"\"|[A-Za-z](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
)


#: No more owners than this are looked up above the one that a gang was made for.
_HIGHEST = 4
#: What makes a new object at each turn of its schedule: users follow the run.
_SCHEDULES = ("CronJob", "RayCronJob", "ScheduledWorkflow", "ScheduledSparkApplication")


#: (resource, name, namespace) -> the object. Raises ApiError.
Read = Callable[[Resource, str, str], Object]


class Owner(NamedTuple):
    resource: Resource
    key: Key
    uid: str


def top_owner(group: Object) -> Owner | None:
    """From the note of the podgrouper, else from the owner reference; None for a bare group."""
    meta = group["metadata"]
    note = (meta.get("annotations") or {}).get(names.TOP_OWNER_METADATA)
    if note:
        found = _from_note(note, meta.get("namespace") or "")
        if found is not None:
            return found
    return controller(group)


def controller(obj: Object) -> Owner | None:
    """The object's own owner: for a PodGroup, what it was made for."""
    meta = obj["metadata"]
    references: list[Object] = meta.get("ownerReferences") or []
    chosen = next((r for r in references if r.get("controller")), None)
    if chosen is None and references:
        chosen = references[0]
    if chosen is None:
        return None
    return _owner(
        str(chosen.get("apiVersion") or ""),
        str(chosen.get("kind") or ""),
        str(chosen.get("name") or ""),
        str(chosen.get("uid") or ""),
        meta.get("namespace") or "",
    )


def above(read: Read, owner: Owner) -> Owner:
    """The object that the user made, for one that an operator made of it: a JobSet's TrainJob.

    One read for each owner above; what cannot be read ends the climb.
    """
    for _ in range(_HIGHEST):
        try:
            found = controller(read(owner.resource, owner.key.name, owner.key.namespace))
        except ApiError:
            return owner
        if found is None or found.resource.kind in _SCHEDULES:
            return owner
        owner = found
    return owner


def workload_of(group: Object, known: Known) -> Owner | None:
    """The job that a gang belongs to as lists call it: a TrainJob, though its JobSet has the gang.

    None for a bare group.
    """
    owner = top_owner(group)
    if owner is None:
        return None
    space = owner.key.namespace
    own = (owner.resource.api_version, owner.resource.kind, space, owner.key.name)
    here = known(own)
    if here is None or (owner.uid and here["metadata"].get("uid") != owner.uid):
        return owner
    name = wrapper(own, known)
    found = known(name)
    if name == own or found is None:
        return owner
    return _owner(name[0], name[1], name[3], found["metadata"].get("uid") or "", space)


def called(group: Object, known: Known) -> str:
    """What users call a gang: "PyTorchJob resnet"; a bare group by its own name."""
    owner = workload_of(group, known)
    if owner is None:
        return f"PodGroup {group['metadata']['name']}"
    return f"{owner.resource.kind} {owner.key.name}"


def _from_note(note: str, namespace: str) -> Owner | None:
    top: Any = _plain(note)
    if top is None:
        try:
            top = yaml.safe_load(note)
        except yaml.YAMLError:
            return None
    if not isinstance(top, dict) or not top.get("kind") or not top.get("name"):
        return None
    group, version = top.get("group") or "", top.get("version") or "v1"
    api_version = top.get("apiVersion") or (f"{group}/{version}" if group else version)
    return _owner(
        str(api_version), str(top["kind"]), str(top["name"]), str(top.get("uid") or ""), namespace
    )


def _plain(note: str) -> dict[str, str] | None:
    """The note as the podgrouper writes it, a word a line; None for what only YAML can read."""
    found: dict[str, str] = {}
    for line in note.splitlines():
        match = _WORD.fullmatch(line)
        if match is None:
            return None
        found[match[1]] = match[2].strip("'\"")
    return found


def _owner(api_version: str, kind: str, name: str, uid: str, namespace: str) -> Owner:
    resource = kinds.BY_KIND.get((api_version, kind))
    if resource is None:
        group, _, version = api_version.rpartition("/")
        resource = Resource(group, version, f"{kind.lower()}s", kind)
    return Owner(resource, Key(namespace if resource.namespaced else "", name), uid)

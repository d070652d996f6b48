"""From a name that a user gave to the object that is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kai_ray.cluster import port as api
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object, Port, Resource, Write
from kai_ray.cluster.suspension import SUSPEND
from kai_ray.sdk.errors import Ambiguous, NotFound, Unserved
from kai_ray.sight.jobs import listing

#: Kinds that a bare name may mean before they have a gang.
WORKLOADS = (*SUSPEND, R.DEPLOYMENT, R.STATEFUL_SET, R.POD)


@dataclass(frozen=True)
class Found:
    """A workload and, if it has gangs, how it stands."""

    resource: Resource
    namespace: str
    name: str
    object: Object
    job: listing.Job | None = None

    def __str__(self) -> str:
        return f"{self.resource.kind.lower()}/{self.name}"


def find(port: Port, namespace: str, typed: str) -> Found:
    """The workload that `NAME`, `KIND/NAME` or `kind.group/NAME` means in a namespace.

    Raises NotFound, and Ambiguous where several have that name.
    """
    kind, _, name = typed.rpartition("/")
    jobs = [
        j
        for j in listing.read(port, namespace)
        if j.name == name and (not kind or _is_kind(j.kind, j.api_version, kind))
    ]
    if len(jobs) > 1:
        choices = ", ".join(f"{j.kind.lower()}/{j.name}" for j in jobs)
        raise Ambiguous(f"{typed!r} names several jobs: {choices}", command="say which one")
    if jobs:
        job = jobs[0]
        resource = resource_of(port, job.api_version, job.kind)
        obj = port.get(resource, job.name, job.namespace)
        return Found(resource, job.namespace, job.name, obj, job)
    found = _ungrouped(port, namespace, kind, name)
    if found is None:
        raise NotFound(f"job {typed!r} does not exist", command=f"kai get jobs -n {namespace}")
    return found


def _ungrouped(port: Port, namespace: str, kind: str, name: str) -> Found | None:
    """A workload that has no gang yet: it was submitted a moment ago, or is not ours."""
    wanted = [
        r
        for r in (R.ALL if kind else WORKLOADS)
        if r.namespaced and (not kind or _is_kind(r.kind, r.api_version, kind))
    ]
    answers = port.batch([Write(port.get, (r, name, namespace)) for r in wanted])
    for resource, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, dict):
            return Found(resource, namespace, name, answer)
    return None


def _is_kind(kind: str, api_version: str, typed: str) -> bool:
    group = api_version.rpartition("/")[0]
    short, _, typed_group = typed.lower().partition(".")
    resource = R.BY_KIND.get((api_version, kind))
    names = {kind.lower(), f"{kind.lower()}s"} | ({resource.plural} if resource else set())
    return short in names and (not typed_group or group.startswith(typed_group))


def resource_of(port: Any, api_version: str, kind: str) -> Resource:
    """The resource of a kind: one we know, or what the server's discovery says."""
    known = R.BY_KIND.get((api_version, kind))
    if known is not None:
        return known
    group, _, version = api_version.rpartition("/")
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        served = port.raw("GET", path)
    except (api.NotFound, AttributeError) as error:  # an embedded store has no discovery
        raise _unserved(api_version, kind) from error
    for entry in served.get("resources") or []:
        if entry.get("kind") == kind and "/" not in entry["name"]:
            return Resource(group, version, entry["name"], kind, bool(entry.get("namespaced")))
    raise _unserved(api_version, kind)


def _unserved(api_version: str, kind: str) -> Unserved:
    return Unserved(
        f"the cluster does not serve kind {kind} of {api_version}",
        why="its custom resource definition is not installed",
        command="kubectl api-resources",
    )

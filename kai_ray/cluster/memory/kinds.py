"""What the store serves: the built-in kinds, and those that CRDs add."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import NotFound, Object, Resource
from kai_ray.cluster.selectors import FIELDS

if TYPE_CHECKING:
    from .schema import Schema


class ScalePaths(NamedTuple):
    """Dotted paths of the scale subresource inside the object."""

    spec: str = "spec.replicas"
    status: str = "status.replicas"
    selector: str = "spec.selector"


@dataclass(frozen=True, slots=True)
class Served:
    """One kind in one version, with everything the store and its REST face need to know of it."""

    resource: Resource
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    scale: ScalePaths | None = None
    generation: bool = False
    fields: frozenset[str] = frozenset()
    #: None for built-in kinds.
    schema: Schema | None = None
    #: additionalPrinterColumns of a CRD version.
    columns: tuple[Object, ...] = ()
    #: The openAPIV3Schema of a CRD version as it was written.
    openapi: Object = field(default_factory=dict[str, Any])
    storage_version: str = ""

    @property
    def builtin(self) -> bool:
        return self.schema is None

    @property
    def group_plural(self) -> tuple[str, str]:
        return self.resource.group, self.resource.plural

    def present(self, obj: Object) -> Object:
        """A stored object in this version: conversion changes only the name."""
        wanted = self.resource.api_version
        return obj if obj["apiVersion"] == wanted else {**obj, "apiVersion": wanted}

    def to_store(self, obj: Object) -> Object:
        """The object in the version that is stored."""
        if self.storage_version == self.resource.version:
            return obj
        return {**obj, "apiVersion": f"{self.resource.group}/{self.storage_version}"}


_SHORT: dict[Resource, tuple[str, ...]] = {
    r.POD: ("po",),
    r.NODE: ("no",),
    r.NAMESPACE: ("ns",),
    r.EVENT: ("ev",),
    r.CONFIG_MAP: ("cm",),
    r.SERVICE: ("svc",),
    r.SERVICE_ACCOUNT: ("sa",),
    r.PVC: ("pvc",),
    r.PV: ("pv",),
    r.ENDPOINTS: ("ep",),
    r.REPLICATION_CONTROLLER: ("rc",),
    r.RESOURCE_QUOTA: ("quota",),
    r.LIMIT_RANGE: ("limits",),
    r.PRIORITY_CLASS: ("pc",),
    r.STORAGE_CLASS: ("sc",),
    r.PDB: ("pdb",),
    r.CRD: ("crd", "crds"),
    r.NETWORK_POLICY: ("netpol",),
    r.INGRESS: ("ing",),
    r.CRON_JOB: ("cj",),
    r.DEPLOYMENT: ("deploy",),
    r.REPLICA_SET: ("rs",),
    r.STATEFUL_SET: ("sts",),
    r.DAEMON_SET: ("ds",),
}
_IN_ALL = {
    r.POD,
    r.SERVICE,
    r.REPLICATION_CONTROLLER,
    r.JOB,
    r.CRON_JOB,
    r.DEPLOYMENT,
    r.REPLICA_SET,
    r.STATEFUL_SET,
    r.DAEMON_SET,
}
_STATUS = {
    r.POD,
    r.NODE,
    r.NAMESPACE,
    r.SERVICE,
    r.PVC,
    r.PV,
    r.REPLICATION_CONTROLLER,
    r.RESOURCE_QUOTA,
    r.PDB,
    r.CRD,
    r.INGRESS,
    r.RESOURCE_CLAIM,
    r.JOB,
    r.CRON_JOB,
    r.DEPLOYMENT,
    r.REPLICA_SET,
    r.STATEFUL_SET,
    r.DAEMON_SET,
}
_SCALE = {r.REPLICATION_CONTROLLER, r.DEPLOYMENT, r.REPLICA_SET, r.STATEFUL_SET}
_GENERATION = {
    r.POD,
    r.CRD,
    r.JOB,
    r.CRON_JOB,
    r.DEPLOYMENT,
    r.REPLICA_SET,
    r.STATEFUL_SET,
    r.DAEMON_SET,
    r.REPLICATION_CONTROLLER,
    r.PDB,
    r.INGRESS,
    r.NETWORK_POLICY,
    r.PRIORITY_CLASS,
    r.RESOURCE_SLICE,
    r.DEVICE_CLASS,
}
_BUILTIN_GROUPS = {
    "",
    "apps",
    "batch",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "coordination.k8s.io",
    "policy",
    "apiextensions.k8s.io",
    "rbac.authorization.k8s.io",
    "networking.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
}


def builtin_kinds() -> list[Served]:
    return [
        Served(
            resource=res,
            singular=res.kind.lower(),
            list_kind=f"{res.kind}List",
            short_names=_SHORT.get(res, ()),
            categories=("all",) if res in _IN_ALL else (),
            status=res in _STATUS,
            scale=ScalePaths() if res in _SCALE else None,
            generation=res in _GENERATION,
            fields=FIELDS.get((res.group, res.plural), frozenset()),
            storage_version=res.version,
        )
        for res in r.ALL
        if res.group in _BUILTIN_GROUPS
    ]


class Registry:
    """The kinds that are served now."""

    def __init__(self) -> None:
        self._by_plural: dict[tuple[str, str], dict[str, Served]] = {}
        self._by_kind: dict[tuple[str, str], Served] = {}
        self._by_group_kind: dict[tuple[str, str], tuple[str, str]] = {}
        for served in builtin_kinds():
            self.put(served.group_plural, [served])

    def put(self, group_plural: tuple[str, str], versions: list[Served]) -> None:
        """Serves these versions of a resource and no others; readers never see it half done."""
        before = self._by_plural.get(group_plural, {})
        for served in versions:
            res = served.resource
            self._by_kind[res.api_version, res.kind] = served
            self._by_group_kind[res.group, res.kind] = group_plural
        self._by_plural[group_plural] = {s.resource.version: s for s in versions}
        kinds = {(s.resource.api_version, s.resource.kind) for s in versions}
        for served in before.values():
            res = served.resource
            if (res.api_version, res.kind) not in kinds:
                self._by_kind.pop((res.api_version, res.kind), None)
            if res.kind not in {s.resource.kind for s in versions}:
                self._by_group_kind.pop((res.group, res.kind), None)
        if not versions:
            del self._by_plural[group_plural]

    def find(self, resource: Resource) -> Served:
        """Raises NotFound if the kind is not served in this version."""
        served = self._by_plural.get((resource.group, resource.plural), {}).get(resource.version)
        if served is None:
            raise NotFound(
                "the server could not find the requested resource "
                f"({resource.plural}.{resource.version}.{resource.group or 'core'}); "
                "is its CustomResourceDefinition installed?"
            )
        return served

    def by_plural(self, group: str, plural: str) -> dict[str, Served]:
        """Versions of one resource; empty if it is not served."""
        return dict(self._by_plural.get((group, plural), {}))

    def by_kind(self, api_version: str, kind: str) -> Served | None:
        return self._by_kind.get((api_version, kind))

    def tables_of_kind(self, api_version: str, kind: str) -> tuple[str, str] | None:
        """Where objects of this group and kind are stored, whatever the version says."""
        group = api_version.rpartition("/")[0]
        return self._by_group_kind.get((group, kind))

    def __iter__(self) -> Iterator[Served]:
        for versions in list(self._by_plural.values()):
            yield from list(versions.values())

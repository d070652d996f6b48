"""Look-ups in caches; the API server is asked only where no cache of the kind runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.informer import Informer
from kai_ray.cluster.port import (
    ApiError,
    BadRequest,
    Forbidden,
    NotFound,
    Object,
    Port,
    Resource,
)
from kai_ray.cluster.runtime import Runtime

from .values import group_of, labels, owner_references

log = logging.getLogger(__name__)

#: Index of objects by the UIDs of their owners.
BY_OWNER = "podgrouper/owner-uid"

KindKey = tuple[str, str]


def owner_uids(obj: Object) -> Iterable[str]:
    for reference in owner_references(obj):
        if reference.get("uid"):
            yield str(reference["uid"])


class ClusterReader:
    """A Reader over the caches of one runtime; before it has one, over a port alone.

    Misses of a cached kind are believed, except for owners: those may be newer than the cache.
    """

    def __init__(self, port: Port | None = None) -> None:
        self._port = port
        self._runtime: Runtime | None = None
        self._resources: dict[KindKey, Resource] = {}
        self._caches: dict[KindKey, Informer] = {}
        for resource in kinds.ALL:
            self._resources.setdefault((resource.group, resource.kind), resource)

    def attach(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._port = self._port or runtime.port

    # ------------------------------------------------------------------ kinds

    def learn(self, definition: Object) -> Resource | None:
        """Takes in the kind that a CustomResourceDefinition adds; the preferred version wins."""
        spec = definition.get("spec") or {}
        names = spec.get("names") or {}
        served = [v for v in spec.get("versions") or () if v.get("served")]
        if not served or not names.get("kind"):
            return None
        best = next((v for v in served if v.get("storage")), served[0])
        resource = Resource(
            spec.get("group") or "",
            best.get("name") or "",
            names.get("plural") or "",
            names["kind"],
            spec.get("scope") != "Cluster",
        )
        key = (resource.group, resource.kind)
        known = self._resources.get(key)
        if known is not None and any(v.get("name") == known.version for v in served):
            return known
        self._resources[key] = resource
        return resource

    def resource(self, api_version: str, kind: str) -> Resource | None:
        return self._resources.get((group_of(api_version), kind))

    def serves(self, resource: Resource) -> bool:
        """Whether the API server has the kind and lets us read it; in doubt it has."""
        assert self._port is not None
        try:
            self._port.list(resource, limit=1)
        except (NotFound, Forbidden, BadRequest):
            return False
        except ApiError:  # no answer just now: the cache tries again
            return True
        return True

    def cache(self, resource: Resource) -> Informer:
        """The cache of a kind that the API server serves; starts it at the first call."""
        key = (resource.group, resource.kind)
        found = self._caches.get(key)
        if found is None:
            assert self._runtime is not None
            found = self._caches[key] = self._runtime.informer(resource)
            found.add_index(BY_OWNER, owner_uids)
        return found

    def cached(self, resource: Resource) -> bool:
        return (resource.group, resource.kind) in self._caches

    def owned_by(self, uid: str, *, pods: bool) -> list[Object]:
        """What carries an owner reference to `uid`: pods, or objects of the other cached kinds."""
        found: list[Object] = []
        for (_, kind), cache in list(self._caches.items()):
            if (kind == "Pod") == pods:
                found += cache.by_index(BY_OWNER, uid)
        return found

    # ------------------------------------------------------------------ reading

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Object | None:
        resource = self.resource(api_version, kind)
        if resource is None:
            return None
        cache = self._caches.get((resource.group, resource.kind))
        if cache is not None:
            return cache.get(name, namespace if resource.namespaced else "")
        return self._read(resource, name, namespace)

    def owner(self, api_version: str, kind: str, name: str, namespace: str) -> Object | None:
        """As `get`, but asks the API server for what the cache does not have yet."""
        resource = self.resource(api_version, kind)
        if resource is None:
            return None
        cache = self._caches.get((resource.group, resource.kind))
        space = namespace if resource.namespaced else ""
        found = cache.get(name, space) if cache is not None else None
        return found if found is not None else self._read(resource, name, space)

    def _read(self, resource: Resource, name: str, namespace: str) -> Object | None:
        if self._port is None:
            return None
        try:
            return self._port.get(resource, name, namespace if resource.namespaced else "")
        except ApiError as error:
            log.debug("cannot read %s %s/%s: %s", resource.plural, namespace, name, error)
            return None

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> Sequence[Object]:
        resource = self.resource(api_version, kind)
        if resource is None:
            return ()
        cache = self._caches.get((resource.group, resource.kind))
        if cache is not None:
            found: list[Any] = cache.list(namespace or None)
        else:
            found = self._list(resource, namespace)
        return [o for o in found if _matches(o, labels)] if labels else found

    def owned(self, api_version: str, kind: str, uid: str) -> Sequence[Object]:
        resource = self.resource(api_version, kind)
        if resource is None or not uid:
            return ()
        cache = self._caches.get((resource.group, resource.kind))
        if cache is not None:
            return cache.by_index(BY_OWNER, uid)
        return [o for o in self._list(resource, "") if uid in owner_uids(o)]

    def _list(self, resource: Resource, namespace: str) -> list[Object]:
        if self._port is None:
            return []
        try:
            return self._port.list(resource, namespace or None).items
        except ApiError as error:
            log.debug("cannot list %s: %s", resource.plural, error)
            return []


def _matches(obj: Object, wanted: Mapping[str, str]) -> bool:
    found = labels(obj)
    return all(found.get(k) == v for k, v in wanted.items())

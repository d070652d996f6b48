"""The workloads that gangs were made for, of kinds that are watched anyway."""

from __future__ import annotations

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import ApiError, Object, Resource
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.suspension import SUSPEND, is_suspended
from kai_ray.cluster.wrappers import Name, cached
from kai_ray.controllers.owners import Owner, workload_of
from kai_ray.controllers.suspend import GANG_KINDS
from kai_ray.sight.life import Life


class Workloads:
    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._cached = cached(runtime)

    def behind(self, group: Object, ask: bool) -> Owner | None:
        """The job that a gang is of, as lists call it; None for a bare PodGroup.

        ask: what the caches do not have yet may be read, a request for each owner.
        """
        return workload_of(group, self._asked if ask else self._cached)

    def _asked(self, name: Name) -> Object | None:
        found, resource = self._cached(name), kinds.BY_KIND.get(name[:2])
        if found is not None or resource is None or resource not in GANG_KINDS:
            return found
        if self._runtime.informer(resource).absent:
            return None
        try:
            return self._runtime.port.get(resource, name[3], name[2])
        except ApiError:
            return None

    def of(self, life: Life) -> Object | None:
        """The job itself; None where it is gone or its kind is not watched."""
        resource = _resource_of(life)
        if resource is None or resource not in SUSPEND:
            return None
        found = self._runtime.informer(resource).get(life.name, life.key.namespace)
        if found is None or (found["metadata"].get("uid") or "") != life.uid:
            return None
        return found

    def suspended(self, life: Life, owner: Object) -> bool:
        resource = _resource_of(life)
        return resource is not None and is_suspended(resource, owner)


def _resource_of(life: Life) -> Resource | None:
    return kinds.BY_KIND.get((life.api_version, life.kind))

"""The workloads that gangs were made for, of kinds that are watched anyway."""

from __future__ import annotations

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object, Resource
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.suspension import SUSPEND, is_suspended
from kai_ray.sight.life import Life


class Workloads:
    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime

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

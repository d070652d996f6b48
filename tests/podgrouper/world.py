"""A store with admission, a podgrouper on its loop, and objects to put in."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kai_ray.admission import default_admission
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import Object, Resource
from kai_ray.cluster.runtime import Runtime
from kai_ray.podgrouper.controller import Podgrouper

NAMESPACE = "default"


class CountingPort:
    """Counts what is asked of a port, by method and kind."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.calls: Counter[tuple[str, str]] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name not in ("get", "list", "watch", "create", "update", "patch", "delete"):
            return method

        def counted(resource: Resource, *args: Any, **kwargs: Any) -> Any:
            self.calls[name, resource.kind] += 1
            return method(resource, *args, **kwargs)

        return counted


class World:
    """The parts that the podgrouper needs; nothing schedules, and only the test makes pods."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.podgrouper = Podgrouper()
        plugins = default_admission(None, self.podgrouper.member_of)
        self.store = MemoryStore(self.clock, plugins, seed=7)
        install_defaults(self.store)
        self.port = CountingPort(self.store)
        self.runtime = Runtime(self.port, self.clock)  # type: ignore[arg-type]
        self.runtime.add(self.podgrouper)
        self.settle()
        self.port.calls.clear()

    def settle(self, seconds: float = 1.0) -> None:
        self.runtime.run_until(lambda: False, seconds)

    def add(self, resource: Resource, obj: Object) -> Object:
        meta = {**obj.get("metadata", {})}
        if resource.namespaced:
            meta.setdefault("namespace", NAMESPACE)
        made = self.store.create(resource, {**obj, "metadata": meta})
        self.settle()
        return made

    def change(self, resource: Resource, name: str, patch: Object, **options: Any) -> None:
        self.store.patch(resource, name, patch, NAMESPACE, **options)
        self.settle()

    def pod(self, owner: Object | None, name: str, labels: dict[str, str] | None = None) -> Object:
        meta: Object = {"name": name, "labels": labels or {}}
        if owner is not None:
            meta["ownerReferences"] = [reference(owner)]
        return self.add(kinds.POD, {"metadata": meta, "spec": {"containers": [CONTAINER]}})

    def groups(self) -> list[Object]:
        return self.store.list(kinds.POD_GROUP, NAMESPACE).items

    def group(self) -> Object:
        (only,) = self.groups()
        return only

    def floors(self) -> dict[str, int]:
        """Minima of the only group's subgroups, in pods or in units."""
        subs = self.group()["spec"].get("subGroups") or ()
        return {s["name"]: s.get("minMember", s.get("minSubGroup")) for s in subs}

    def events(self) -> list[str]:
        return [e["message"] for e in self.store.list(kinds.EVENT).items]


def reference(owner: Object) -> Object:
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


CONTAINER = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}


def ray_cluster(name: str = "rc", **spec: Any) -> Object:
    """A RayCluster with one worker group `w` of two, unless `workerGroupSpecs` is given."""
    group = {
        "groupName": "w",
        "replicas": 2,
        "minReplicas": 0,
        "maxReplicas": 100,
        "rayStartParams": {},
        "template": TEMPLATE,
    }
    body = {
        "headGroupSpec": {"rayStartParams": {}, "template": TEMPLATE},
        "workerGroupSpecs": [group],
        **spec,
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": body,
    }


def worker_group(**fields: Any) -> Object:
    base = {"groupName": "w", "minReplicas": 0, "rayStartParams": {}, "template": TEMPLATE}
    return {**base, **fields}


def ray_labels(cluster: str, group: str, **more: str) -> dict[str, str]:
    kind = "head" if group == "headgroup" else "worker"
    return {
        "ray.io/cluster": cluster,
        "ray.io/group": group,
        "ray.io/node-type": kind,
        **more,
    }

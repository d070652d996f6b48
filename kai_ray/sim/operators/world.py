"""What every stand-in operator does: read caches, create what it owns, report status."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable
from typing import Any

from kai_ray.cluster.clock import epoch, rfc3339
from kai_ray.cluster.port import AlreadyExists, Conflict, NotFound, Object, Resource
from kai_ray.cluster.runtime import Runtime

CONTROLLER_UID = "controller-uid"
#: Most objects that one look creates; the changes they make bring the next look.
BURST = 500
#: The letters that Kubernetes uses for generated names.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def owner_of(obj: Object) -> Object | None:
    """The controller reference, or None."""
    for ref in obj["metadata"].get("ownerReferences") or ():
        if ref.get("controller"):
            return ref
    return None


def owner_ref(resource: Resource, obj: Object) -> Object:
    """A controller reference to `obj`, as controller-runtime writes it."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def key_text(obj: Object) -> str:
    meta = obj["metadata"]
    return f"{meta.get('namespace') or ''}/{meta['name']}"


def split_key(key: str) -> tuple[str, str]:
    namespace, _, name = key.partition("/")
    return namespace, name


def suffix(*parts: object, length: int = 5) -> str:
    """A name suffix that looks generated but depends only on `parts`."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=16).digest()
    return "".join(LETTERS[b % len(LETTERS)] for b in digest[:length])


def is_deleting(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def condition(obj: Object, kind: str) -> Object | None:
    for found in (obj.get("status") or {}).get("conditions") or ():
        if found["type"] == kind:
            return found
    return None


def is_true(obj: Object, kind: str) -> bool:
    found = condition(obj, kind)
    return found is not None and found["status"] == "True"


def _controller_uid(obj: Object) -> Iterable[str]:
    ref = owner_of(obj)
    return (ref["uid"],) if ref else ()


class World:
    """The port with its caches: reads never leave the process, own writes are remembered."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.port = runtime.port

    def now(self) -> float:
        return self.runtime.clock.now()

    def stamp(self, when_s: float | None = None) -> str:
        return rfc3339(self.now() if when_s is None else when_s)

    def age_s(self, stamp: str | None) -> float:
        return self.now() - epoch(stamp) if stamp else 0.0

    def watch(self, controller: str, resource: Resource) -> None:
        """Changes of `resource` make their own keys due."""

        def handle(old: Object | None, new: Object | None) -> None:
            obj = new or old
            assert obj is not None
            self.runtime.enqueue(controller, key_text(obj))

        self.runtime.informer(resource).on_change(handle)

    def watch_owned(self, controller: str, resource: Resource, owner: Resource) -> None:
        """Changes of `resource` make the key of their controlling `owner` due."""

        def handle(old: Object | None, new: Object | None) -> None:
            obj = new or old
            assert obj is not None
            ref = owner_of(obj)
            if ref and ref["kind"] == owner.kind and ref["apiVersion"] == owner.api_version:
                namespace = obj["metadata"].get("namespace") or ""
                self.runtime.enqueue(controller, f"{namespace}/{ref['name']}")

        informer = self.runtime.informer(resource)
        informer.add_index(CONTROLLER_UID, _controller_uid)
        informer.on_change(handle)

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self.runtime.informer(resource).get(name, namespace if resource.namespaced else "")

    def owned(self, resource: Resource, owner: Object) -> list[Object]:
        """What `owner` controls, oldest first."""
        informer = self.runtime.informer(resource)
        informer.add_index(CONTROLLER_UID, _controller_uid)
        found = informer.by_index(CONTROLLER_UID, owner["metadata"]["uid"])
        return sorted(found, key=_age_order)

    def create(self, resource: Resource, obj: Object) -> Object | None:
        """The stored object; None if one of that name exists already."""
        try:
            made = self.port.create(resource, obj)
        except AlreadyExists:
            return None
        self.runtime.informer(resource).remember(made)
        return made

    def ensure(self, resource: Resource, obj: Object) -> None:
        """Creates `obj` unless one of that name is known."""
        meta = obj["metadata"]
        if self.get(resource, meta.get("namespace", ""), meta["name"]) is None:
            self.create(resource, obj)

    def delete(self, resource: Resource, obj: Object, grace_s: int | None = None) -> None:
        if is_deleting(obj) and grace_s is None:
            return
        meta = obj["metadata"]
        try:
            left = self.port.delete(
                resource,
                meta["name"],
                meta.get("namespace") or "",
                grace_s=grace_s,
                uid=meta["uid"],
            )
        except (NotFound, Conflict):
            return
        if left is not None and left["metadata"].get("deletionTimestamp"):
            self.runtime.informer(resource).remember(left)

    def update(self, resource: Resource, obj: Object) -> Object:
        """Replaces spec and metadata. `obj` is the caller's own copy."""
        made = self.port.update(resource, obj)
        self.runtime.informer(resource).remember(made)
        return made

    def set_status(self, resource: Resource, obj: Object, status: Object) -> bool:
        """Writes the status if it differs from what `obj` carries; True if it did."""
        if (obj.get("status") or {}) == status:
            return False
        fresh = dict(obj)
        fresh["status"] = status
        try:
            made = self.port.update(resource, fresh, subresource="status")
        except NotFound:
            return False
        self.runtime.informer(resource).remember(made)
        return True

    def set_condition(
        self, conditions: list[Object], kind: str, status: str, reason: str, message: str = ""
    ) -> None:
        """Adds or changes one condition in place; the time moves only with the status."""
        for found in conditions:
            if found["type"] == kind:
                if found["status"] != status:
                    found["lastTransitionTime"] = self.stamp()
                found.update(status=status, reason=reason, message=message)
                return
        conditions.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": self.stamp(),
            }
        )


def _age_order(obj: Object) -> tuple[str, int, str]:
    meta = obj["metadata"]
    version = str(meta.get("resourceVersion", ""))
    return (
        meta.get("creationTimestamp") or "",
        int(version) if version.isdigit() and not meta.get("creationTimestamp") else 0,
        meta["name"],
    )


def own_copy(obj: Any) -> Any:
    """A copy that may be changed."""
    return copy.deepcopy(obj)

"""Suspends the workload of an idle gang for good: by its kind's own switch, as its user would.

A kind without a switch, or a workload whose operator would fail it, is suspended by annotation: the
scheduler evicts its pods, and those that are made again wait until it is resumed.
"""

from __future__ import annotations

from collections.abc import Callable

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import ApiError, Conflict, Key, NotFound, Object, Resource, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.suspension import annotation_patch, is_suspended, suspend_patch
from kai_ray.controllers.merge_patch import unchanged
from kai_ray.controllers.owners import above, top_owner
from kai_ray.controllers.suspend import can_suspend, has_ended
from kai_ray.controllers.suspensions import Suspensions

_LONGEST = 512


class Refused(Exception):
    """Why a workload cannot be suspended: a sentence's end."""


class Switch:
    def __init__(self, suspensions: Suspensions) -> None:
        self._suspensions = suspensions

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def off(self, group: Object, why: str) -> str:
        """Suspends; what it is called. Raises Refused, and ApiError where it may go another time.

        What has changed since it was seen is refused with Conflict and looked at again.
        """
        resource, workload = self._suspensions.of(group) or self.workload(group)
        name = workload["metadata"]["name"]
        called = f"{resource.kind} {name}"
        if is_suspended(resource, workload):
            if names.RESUME_AT in (workload["metadata"].get("annotations") or {}):
                raise Conflict(f"{called} is leaving for a moment already")
            return called
        obeys = can_suspend(resource, workload)
        patch = suspend_patch(resource, True) if obeys else annotation_patch(True)
        answer = self._patch(resource, workload, patch, why)
        if not is_suspended(resource, answer):  # this version of the kind ignores the switch
            self._patch(resource, answer, annotation_patch(True), why)
        return called

    def beside(self, group: Object, holds: Callable[[Key], bool]) -> list[Object]:
        """Other gangs of the same workload that hold places: they would go with it."""
        owner = top_owner(group)
        if owner is None:
            return []
        space, own = group["metadata"].get("namespace") or "", key_of(group)
        return [
            other
            for other in self._runtime.informer(kinds.POD_GROUP).list(space)
            if key_of(other) != own and top_owner(other) == owner and holds(key_of(other))
        ]

    def workload(self, group: Object) -> tuple[Resource, Object]:
        """What the user made. Raises Refused where there is nothing that would make pods again."""
        owner = top_owner(group)
        if owner is None or owner.resource == kinds.POD:
            raise Refused("it is a bare pod, which nobody would make again")
        port = self._runtime.port
        try:
            owner = above(port.get, owner)
            found = port.get(owner.resource, owner.key.name, owner.key.namespace)
        except NotFound:
            raise Refused("its workload is gone") from None
        if owner.uid and found["metadata"].get("uid") != owner.uid:
            raise Refused("its workload is gone")
        if has_ended(found):
            raise Refused("it has ended")
        return owner.resource, found

    def _patch(self, resource: Resource, workload: Object, patch: Object, why: str) -> Object:
        meta = workload["metadata"]
        notes = (patch.get("metadata") or {}).get("annotations") or {}
        notes = {**notes, names.SUSPENDED_BY: why[:_LONGEST], names.EVICTION_NOTICE: None}
        body = {**patch, "metadata": {**unchanged(workload), "annotations": notes}}
        space = meta.get("namespace") or ""
        answer = self._runtime.port.patch(resource, meta["name"], body, space)
        if not isinstance(answer, dict):
            raise ApiError(f"{resource.kind} {meta['name']}: no answer")
        return answer

"""Says why something was refused: an event on the object, a condition on its pods and group."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import AlreadyExists, ApiError, Key, Object, Resource, Write, key_of
from kai_ray.cluster.runtime import Runtime

from .values import GroupError, metadata, uid_of

#: (resource, key, uid, reason, message): a Warning event on that object.
Say = Callable[[Resource, Key, str, str, str], None]

#: The reason on pods; the message starts with the workload's own reason.
MISCONFIGURED = "Misconfigured"
#: Type of the PodGroup condition that says whether it follows its workload.
DERIVED = "Derived"
_LARGEST_BATCH = 200


class Reporter:
    """Speaks once per object and message; repeats nothing that was said before."""

    def __init__(self, say: Say | None = None) -> None:
        self._say = say
        self._said: dict[str, dict[str, str]] = {}
        self._runtime: Runtime | None = None

    def attach(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def refused(self, resource: Resource | None, obj: Object, error: GroupError) -> None:
        self.warn(resource, obj, error.reason, str(error))

    def warn(self, resource: Resource | None, obj: Object, reason: str, message: str) -> None:
        """A Warning event on `obj`, if that was not the last one for this reason."""
        if len(self._said) > 10_000:
            self._said.clear()
        said = self._said.setdefault(uid_of(obj), {})
        if resource is None or said.get(reason) == message:
            return
        said[reason] = message
        if self._say is not None:
            self._say(resource, key_of(obj), uid_of(obj), reason, message)
        else:
            self._write(resource, obj, reason, message)

    def settled(self, obj: Object) -> None:
        """`obj` is grouped: the next refusal is news again."""
        self._said.pop(uid_of(obj), None)

    def _write(self, resource: Resource, obj: Object, reason: str, message: str) -> None:
        assert self._runtime is not None
        port, now = self._runtime.port, rfc3339(self._runtime.clock.now())
        key = key_of(obj)
        digest = hashlib.sha256(f"{uid_of(obj)}|{reason}|{message}".encode()).hexdigest()[:16]
        namespace = key.namespace or "default"
        event: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{key.name[:180]}.{digest}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "name": key.name,
                "namespace": key.namespace,
                "uid": uid_of(obj),
            },
            "type": "Warning",
            "reason": reason,
            "message": message[:1024],
            "source": {"component": "kai-podgrouper"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            port.create(kinds.EVENT, event)
        except AlreadyExists:
            return
        except ApiError:
            self._said.clear()

    # ------------------------------------------------------------------ conditions

    def hold_pods(self, pods: list[Object], error: GroupError) -> None:
        """PodScheduled=False on pods that nobody else has said anything about."""
        assert self._runtime is not None
        port = self._runtime.port
        writes: list[Write] = []
        for pod in pods:
            found = _condition(pod, "PodScheduled")
            message = f"{error.reason}: {error}"[:1024]
            if found is not None and (
                found.get("reason") != MISCONFIGURED or found.get("message") == message
            ):
                continue
            patch = {"status": {"conditions": [self._made("PodScheduled", message)]}}
            key = key_of(pod)
            options = {"patch_type": "strategic", "subresource": "status"}
            writes.append(Write(port.patch, (kinds.POD, key.name, patch, key.namespace), options))
        for start in range(0, len(writes), _LARGEST_BATCH):
            port.batch(writes[start : start + _LARGEST_BATCH])

    def mark_group(self, group: Object, error: GroupError | None) -> None:
        """Condition `Derived` of a PodGroup: False while its workload is refused."""
        assert self._runtime is not None
        found = _condition(group, DERIVED)
        if error is None and (found is None or found.get("status") == "True"):
            return
        reason = error.reason if error else "Derived"
        message = str(error)[:1024] if error else "the workload can be grouped"
        if found is not None and (found.get("reason"), found.get("message")) == (reason, message):
            return
        condition = self._made(DERIVED, message, reason, status="False" if error else "True")
        others = [c for c in _conditions(group) if c.get("type") != DERIVED]
        key = key_of(group)
        try:
            self._runtime.port.patch(
                kinds.POD_GROUP,
                key.name,
                {"status": {"conditions": [*others, condition]}},
                key.namespace,
                subresource="status",
            )
        except ApiError:
            return

    def _made(
        self, kind: str, message: str, reason: str = MISCONFIGURED, status: str = "False"
    ) -> Object:
        assert self._runtime is not None
        return {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": rfc3339(self._runtime.clock.now()),
        }


def _conditions(obj: Object) -> list[Any]:
    found = (obj.get("status") or {}).get("conditions")
    return [c for c in found or () if isinstance(c, dict)]


def _condition(obj: Object, kind: str) -> Object | None:
    return next((c for c in _conditions(obj) if c.get("type") == kind), None)


def is_terminating(obj: Object) -> bool:
    return bool(metadata(obj).get("deletionTimestamp"))

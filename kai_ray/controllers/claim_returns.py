"""Gives back devices of pods that wait: a bind that was cut short must not keep others out.

A claim that holds devices for pods that have no node, and are not on their way to one, ties them
and its devices to that node. After a while (a restart takes its pods up again at once) it loses its
reservation for each of them; where nobody is left, the devices too. What pods that ended or were
deleted leave behind is kube-controller-manager's to free.
"""

from __future__ import annotations

import copy
from typing import Any

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Conflict, Key, NotFound, Object, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.cluster.served import device_kinds
from kai_ray.encode import Encoder

#: How long a waiting pod may keep what it was given.
KEEP_S = 5.0


class ClaimReturns:
    """Keys: "namespace/name" of a claim that holds devices."""

    name = "claim-returns"

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._since: dict[Key, float] = {}  # since when only pods that wait hold a claim

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pods = runtime.informer(kinds.POD)
        served = device_kinds(runtime.port)
        if not served:
            return
        self._resource = served[-1]
        self._claims = runtime.informer(self._resource)
        self._claims.on_change(self._changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._since.pop(key_of(old), None)
        elif (new.get("status") or {}).get("allocation"):
            key = key_of(new)
            self._runtime.enqueue(self.name, f"{key.namespace}/{key.name}", KEEP_S)

    def reconcile(self, key: str) -> float | None:
        namespace, _, name = key.partition("/")
        claim = self._claims.get(name, namespace)
        status = (claim or {}).get("status") or {}
        if claim is None or not status.get("allocation"):
            self._since.pop(Key(namespace, name), None)
            return None
        users: list[dict[str, Any]] = list(status.get("reservedFor") or ())
        idle = [user for user in users if self._waits(namespace, user)]
        if not idle and (users or not self._owner_waits(claim)):
            self._since.pop(Key(namespace, name), None)
            return KEEP_S if self._on_the_way(namespace, users) else None
        now = self._runtime.clock.now()
        left = self._since.setdefault(Key(namespace, name), now) + KEEP_S - now
        if left > 0:
            return left
        self._give_back(claim, [user for user in users if user not in idle])
        return None

    def _give_back(self, claim: Object, users: list[Any]) -> None:
        key = key_of(claim)
        fresh = copy.deepcopy(claim)
        if users:
            fresh["status"]["reservedFor"] = users
        else:
            fresh["status"].pop("reservedFor", None)
            del fresh["status"]["allocation"]
        try:
            made = self._runtime.port.update(self._resource, fresh, subresource="status")
        except NotFound:
            return
        except Conflict:
            found = self._runtime.port.get(self._resource, key.name, key.namespace)
            self._claims.remember(found)
            raise
        self._since.pop(key, None)
        self._claims.remember(made)

    def _pod(self, namespace: str, user: dict[str, Any]) -> Object | None:
        """A pod that has no node, by its reservation."""
        if user.get("resource") != "pods":
            return None
        pod = self._pods.get(str(user.get("name")), namespace)
        if pod is None or pod["metadata"].get("uid") != user.get("uid"):
            return None
        return pod if not pod["spec"].get("nodeName") else None

    def _waits(self, namespace: str, user: dict[str, Any]) -> bool:
        pod = self._pod(namespace, user)
        return pod is not None and self._encoder.pods.waits(key_of(pod))

    def _on_the_way(self, namespace: str, users: list[dict[str, Any]]) -> bool:
        return any(self._pod(namespace, user) is not None for user in users)

    def _owner_waits(self, claim: Object) -> bool:
        """Whether it was made for a pod that waits, and nobody has reserved it."""
        for owner in claim["metadata"].get("ownerReferences") or ():
            if owner.get("kind") == "Pod":
                user = {**owner, "resource": "pods"}
                return self._waits(claim["metadata"].get("namespace") or "", user)
        return False

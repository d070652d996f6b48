"""Writes what claims are given, before their pods are bound: a device is promised once.

Per claim two writes, each refused by the API server if anybody else wrote in between: the finalizer
that keeps the claim while it is in use, then allocation and reservations together. A crash after
any of them leaves a claim that says what it holds; its pod finds it so and goes to that node, or
the devices are given back (`claim_returns`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

from kai_ray.cluster.port import (
    AlreadyExists,
    ApiError,
    Conflict,
    Key,
    NotFound,
    Object,
    Resource,
    TooManyRequests,
    Unavailable,
    Write,
)
from kai_ray.cluster.runtime import Informer, Runtime
from kai_ray.cluster.served import device_kinds
from kai_ray.controllers.grants import Grant
from kai_ray.encode.dra.allocation import ClaimGrant, allocation
from kai_ray.encode.dra.claims import held_by
from kai_ray.encode.problems import MISREAD
from kai_ray.scheduler.gpu.facts import MOST_CONSUMERS

#: Keeps a claim from vanishing while it holds devices (Kubernetes resource.k8s.io).
FINALIZER = "resource.kubernetes.io/delete-protection"
_OPEN = (Conflict, AlreadyExists, Unavailable, TooManyRequests)
#: Somebody else may touch a claim in between: so often it is read and written anew.
_TRIES = 3


class _Task(NamedTuple):
    """One claim and the pods that are to hold it."""

    grant: ClaimGrant
    pods: tuple[Grant, ...]


class DeviceClaims:
    """Allocates claims and reserves them for pods."""

    def __init__(self, runtime: Runtime) -> None:
        self._port = runtime.port
        served = device_kinds(runtime.port)
        self._resource: Resource | None = served[-1] if served else None
        self._claims: Informer | None = runtime.informer(served[-1]) if served else None
        self._classes: Informer | None = runtime.informer(served[0]) if served else None

    def allocate(self, grants: Sequence[Grant]) -> list[tuple[Grant, str]]:
        """Grants whose claims could not be written, with the reason; all others have theirs."""
        by_claim: dict[Key, list[tuple[ClaimGrant, Grant]]] = {}
        for g in grants:
            for claim in g.claims:
                by_claim.setdefault(claim.key, []).append((claim, g))
        open_tasks = [_task(found) for found in by_claim.values()]
        failed: dict[int, tuple[Grant, str]] = {}
        for g in grants:
            g.unsure = g.unsure and not g.claims
        for attempt in range(_TRIES):
            open_tasks = self._round(open_tasks, failed, last=attempt == _TRIES - 1)
            if not open_tasks:
                break
        return list(failed.values())

    def _round(
        self, tasks: list[_Task], failed: dict[int, tuple[Grant, str]], last: bool
    ) -> list[_Task]:
        """Two batches of writes; the tasks that are to be tried again."""
        again: list[_Task] = []
        ready: list[tuple[_Task, Object]] = []
        guarded: list[tuple[_Task, Object]] = []
        for task in tasks:
            claim, why = self._claim(task)
            if claim is None:
                _fail(task, why, failed)
            elif self._complete(task, claim):
                continue
            elif FINALIZER in (claim["metadata"].get("finalizers") or ()):
                ready.append((task, claim))
            else:
                guarded.append((task, claim))
        for task, outcome in self._write(guarded, _protected, ""):
            self._outcome(task, outcome, ready, again, failed, last)
        done: list[tuple[_Task, Object]] = []
        for task, outcome in self._write(ready, self._status, "status"):
            self._outcome(task, outcome, done, again, failed, last)
        return again

    def _claim(self, task: _Task) -> tuple[Object | None, str]:
        """The claim, or why it cannot be given what was decided."""
        key = task.grant.key
        if self._claims is None:
            return None, "the cluster serves no resource claims"
        claim = self._claims.get(key.name, key.namespace)
        if claim is None or claim["metadata"].get("uid") != task.grant.uid:
            return None, f"resource claim {key.name} is gone"
        status = claim.get("status") or {}
        if claim["metadata"].get("deletionTimestamp") and not status.get("allocation"):
            return None, f"resource claim {key.name} is being deleted"
        try:
            held = held_by(status.get("allocation"))
        except MISREAD:
            return None, f"the allocation of resource claim {key.name} cannot be read"
        if held is not None and held.devices != task.grant.held.devices:
            return None, f"resource claim {key.name} was given other devices"
        if held is None and task.grant.results is None:
            return None, f"resource claim {key.name} has lost its devices"
        users = {r.get("uid") for r in status.get("reservedFor") or ()}
        if len(users | {g.uid for g in task.pods}) > MOST_CONSUMERS:
            return None, f"resource claim {key.name} is held by as many pods as may"
        return claim, ""

    @staticmethod
    def _complete(task: _Task, claim: Object) -> bool:
        """Whether the claim says all of it already."""
        status = claim.get("status") or {}
        users = {r.get("uid") for r in status.get("reservedFor") or ()}
        return bool(status.get("allocation")) and all(g.uid in users for g in task.pods)

    def _write(
        self, tasks: list[tuple[_Task, Object]], form: object, subresource: str
    ) -> list[tuple[_Task, object]]:
        assert self._resource is not None or not tasks
        writes = [
            Write(
                self._port.update,
                (self._resource, form(task, claim)),  # type: ignore[operator]
                {"subresource": subresource} if subresource else None,
            )
            for task, claim in tasks
        ]
        outcomes = self._port.batch(writes) if writes else []
        return [(task, outcome) for (task, _), outcome in zip(tasks, outcomes, strict=True)]

    def _status(self, task: _Task, claim: Object) -> Object:
        fresh = copy.deepcopy(claim)
        status = fresh.setdefault("status", {})
        if not status.get("allocation"):
            status["allocation"] = allocation(task.grant, claim, self._known_classes())
        users = status.setdefault("reservedFor", [])
        known = {user.get("uid") for user in users}
        users += [
            {"resource": "pods", "name": g.pod.name, "uid": g.uid}
            for g in task.pods
            if g.uid not in known
        ]
        return fresh

    def _known_classes(self) -> dict[str, Object]:
        assert self._classes is not None
        return {c["metadata"]["name"]: c for c in self._classes.list()}

    def _outcome(
        self,
        task: _Task,
        outcome: object,
        done: list[tuple[_Task, Object]],
        again: list[_Task],
        failed: dict[int, tuple[Grant, str]],
        last: bool,
    ) -> None:
        assert self._claims is not None
        if not isinstance(outcome, ApiError):
            assert isinstance(outcome, dict)
            self._claims.remember(outcome)
            done.append((task, outcome))
        elif isinstance(outcome, _OPEN) and self._reread(task):
            if last and not self._says_so(task):
                _fail(task, outcome.message, failed)
            else:
                again.append(task)
        else:
            for g in task.pods:
                g.unsure |= isinstance(outcome, _OPEN)
            _fail(task, f"resource claim {task.grant.key.name}: {outcome.message}", failed)

    def _says_so(self, task: _Task) -> bool:
        claim, _ = self._claim(task)
        return claim is not None and self._complete(task, claim)

    def _reread(self, task: _Task) -> bool:
        """Looks at the claim itself; False if it cannot be asked now."""
        assert self._claims is not None and self._resource is not None
        key = task.grant.key
        try:
            self._claims.remember(self._port.get(self._resource, key.name, key.namespace))
        except NotFound:
            return True  # the watch will say so; what is written meanwhile is refused
        except ApiError:
            return False
        return True


def _task(found: list[tuple[ClaimGrant, Grant]]) -> _Task:
    """What is decided for one claim: by the pod that it is allocated for, if there is one."""
    decided = next((c for c, _ in found if c.results is not None), found[0][0])
    return _Task(decided, tuple(g for _, g in found))


def _protected(task: _Task, claim: Object) -> Object:
    fresh = copy.deepcopy(claim)
    fresh["metadata"].setdefault("finalizers", []).append(FINALIZER)
    return fresh


def _fail(task: _Task, why: str, failed: dict[int, tuple[Grant, str]]) -> None:
    for g in task.pods:
        failed.setdefault(id(g), (g, why))

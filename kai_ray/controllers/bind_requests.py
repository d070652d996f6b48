"""Works off BindRequest objects, ours or those another of KAI's tools made (KAI 0.17, binder).

In the mode `bindRequests: always` a decision is a BindRequest and this is what binds it; requests
that are found in other modes are served as well. All that are due are bound side by side.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import ApiError, Key, NotFound, Object, Write, key_of
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers import backoff
from kai_ray.controllers.bind_failures import BindFailures
from kai_ray.controllers.binder import OPEN, Binder
from kai_ray.controllers.card_claims import DEVICES, CardClaims
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.device_notices import Given, Refused, Want
from kai_ray.controllers.events import Events
from kai_ray.controllers.grants import share_labels
from kai_ray.encode import Encoder
from kai_ray.encode.bind_zones import requested_zones
from kai_ray.encode.settings import MemberOf, in_shard

_LONGEST = 1024


class BindRequests:
    """Keys: "work" binds everything that is due, "devices" what waits for devices that have come;
    "namespace/name" makes one due again."""

    name = "bind-requests"

    def __init__(
        self,
        config: ControlConfig,
        encoder: Encoder,
        binder: Binder,
        failures: BindFailures,
        events: Events,
        cards: CardClaims,
        member_of: MemberOf | None,
    ) -> None:
        self._config = config
        self._encoder = encoder
        self._binder = binder
        self._failures = failures
        self._events = events
        self._cards = cards
        self._member_of = member_of
        self._due: dict[Key, None] = {}
        self._resting: set[Key] = set()
        self._waiting: dict[Key, None] = {}  # for devices

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pods = runtime.informer(kinds.POD)
        self._nodes = runtime.informer(kinds.NODE)
        self._requests = runtime.informer(kinds.BIND_REQUEST)
        self._requests.on_change(self._changed)
        self._cards.setup(runtime, self.name)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        if not self._config.bind_every_pool and not in_shard(new, self._config.encode):
            return
        key, phase = key_of(new), _phase(new)
        if phase == "Failed" or (phase == "Pending" and key not in self._resting):
            self._due[key] = None
            self._runtime.enqueue(self.name, "work")

    def reconcile(self, key: str) -> float | None:
        if key == DEVICES:
            self._due |= self._waiting
            self._waiting.clear()
        elif key != "work":
            namespace, _, name = key.partition("/")
            self._resting.discard(Key(namespace, name))
            self._due[Key(namespace, name)] = None
        chosen = list(self._due)
        self._due.clear()
        try:
            self._work([r for k in chosen if (r := self._requests.get(k.name, k.namespace))])
        except ApiError:
            self._due.update(dict.fromkeys(chosen))
            raise
        return None

    def _work(self, requests: list[Object]) -> None:
        binds: list[_Bind] = []
        for request in requests:
            phase = _phase(request)
            if phase == "Failed":
                self._failed(request)
            elif phase == "Pending" and self._config.bind_role != "decide":
                pod = self._pod(request)
                if pod is None:
                    self._remove(request)
                elif pod["spec"].get("nodeName"):
                    self._succeed(request)
                elif _is_share(request) and not _groups(request):
                    self._remove(request)  # nobody could say which device is meant
                else:
                    binds.append(_Bind(request, pod))
        port = self._runtime.port
        ready = self._with_devices(binds)
        writes = [self._bind(bind) for bind in ready]
        for bind, outcome in zip(ready, port.batch(writes) if writes else (), strict=True):
            self._settle(bind, outcome)

    def _failed(self, request: Object) -> None:
        """Whoever decides gives the place back, and waits longer each time."""
        role = self._config.bind_role
        if role == "carry out":
            return
        pod = self._pod(request)
        if role == "decide" and pod is not None:
            message = str((request.get("status") or {}).get("reason") or "the binder gave up")
            uid = pod["metadata"].get("uid") or ""
            self._failures.note(key_of(pod), uid, _group(pod), message)
        self._remove(request)

    def _with_devices(self, binds: list[_Bind]) -> list[_Bind]:
        """Those whose devices are reserved for them."""
        wants: dict[Key, Want] = {}
        for bind in binds:
            groups = _groups(bind.request)
            if groups:
                key, uid = key_of(bind.pod), bind.pod["metadata"].get("uid") or ""
                wants[key] = Want(key, uid, bind.node, groups)
        found = self._cards.prepare(list(wants.values())) if wants else {}
        ready: list[_Bind] = []
        for bind in binds:
            outcome = found.get(key_of(bind.pod))
            if isinstance(outcome, Refused):
                self._cards.drop(key_of(bind.pod))
                self._fail(bind.request, bind.pod, outcome.message, by_node=outcome.by_node)
            elif isinstance(outcome, Given):
                ready.append(bind._replace(given=outcome))
            elif key_of(bind.pod) in wants:
                self._wait(bind.request)
            else:
                ready.append(bind)
        return ready

    def _wait(self, request: Object) -> None:
        key = key_of(request)
        self._waiting[key] = None
        wait = self._config.reservation_wait_s
        self._runtime.enqueue(self.name, f"{key.namespace}/{key.name}", wait)

    def _pod(self, request: Object) -> Object | None:
        """The pod that is meant; a namesake made later is not."""
        key = _pod_key(request)
        pod = self._pods.get(key.name, key.namespace)
        owners = {r.get("uid") for r in request["metadata"].get("ownerReferences") or ()}
        if pod is None or (owners and pod["metadata"].get("uid") not in owners):
            return None
        return pod

    def _bind(self, bind: _Bind) -> Write:
        pod, given = bind.pod, bind.given
        key, encode = key_of(pod), self._config.encode
        pool = (bind.request["metadata"].get("labels") or {}).get(encode.node_pool_key)
        labels = {encode.node_pool_key: str(pool)} if pool else {}
        annotations: dict[str, str] = {}
        if names.POD_GROUP not in (pod["metadata"].get("annotations") or {}):
            found = self._member_of(pod) if self._member_of else None
            if found is not None and found[0]:
                annotations[names.POD_GROUP] = found[0]
                if found[1]:
                    labels[names.SUBGROUP] = found[1]
        annotations |= requested_zones(bind.request)
        if given is not None:
            labels |= share_labels(_groups(bind.request))
            annotations |= given.annotations
        extra: dict[str, Any] = {
            "uid": pod["metadata"].get("uid") or "",
            "resource_version": given.version if given is not None else "",
            "labels": labels or None,
            "annotations": annotations or None,
        }
        return Write(self._runtime.port.bind, (key.namespace, key.name, bind.node), extra)

    def _settle(self, bind: _Bind, outcome: Any) -> None:
        request, pod = bind.request, bind.pod
        if isinstance(outcome, OPEN):
            key = key_of(pod)
            pod = self._runtime.port.get(kinds.POD, key.name, key.namespace)
            self._pods.remember(pod)
            if pod["spec"].get("nodeName"):
                outcome = None
        if isinstance(outcome, NotFound):
            self._remove(request)
        elif isinstance(outcome, ApiError):
            self._fail(request, pod, outcome.message)
        else:
            if bind.given is not None and bind.given.warning:
                uid, warning = pod["metadata"].get("uid") or "", bind.given.warning
                self._events.warn(kinds.POD, key_of(pod), uid, "SharedWithoutIsolation", warning)
            self._succeed(request)

    def _succeed(self, request: Object) -> None:
        self._status(request, {"phase": "Succeeded", "reason": None})

    def _fail(self, request: Object, pod: Object, message: str, *, by_node: bool = True) -> None:
        key, uid = key_of(request), pod["metadata"].get("uid") or ""
        failures = self._failures.note(key_of(pod), uid, _group(pod), message, by_node=by_node)
        node = (request.get("spec") or {}).get("selectedNode")
        self._events.warn(
            kinds.POD, key_of(pod), uid, "BindFailed", f"not bound to {node}: {message}"
        )
        attempts = int((request.get("status") or {}).get("failedAttempts") or 0) + 1
        status: Object = {"failedAttempts": attempts, "reason": message[:_LONGEST]}
        if attempts > int((request.get("spec") or {}).get("backoffLimit") or 0):
            self._status(request, {**status, "phase": "Failed"})
            return
        self._resting.add(key)
        wait = backoff.wait_s(failures)
        self._runtime.enqueue(self.name, f"{key.namespace}/{key.name}", wait)
        self._status(request, {**status, "phase": "Pending"})

    def _status(self, request: Object, status: Object) -> None:
        key = key_of(request)
        try:
            found = self._runtime.port.patch(
                kinds.BIND_REQUEST,
                key.name,
                {"status": status},
                key.namespace,
                subresource="status",
            )
        except NotFound:
            return
        self._requests.remember(found)

    def _remove(self, request: Object) -> None:
        """Failed or without its pod: what it kept is released."""
        key = key_of(request)
        uid = request["metadata"].get("uid") or ""
        with contextlib.suppress(NotFound):
            self._runtime.port.delete(kinds.BIND_REQUEST, key.name, key.namespace, uid=uid)
        pod = self._pod(request)
        if pod is not None:
            self._binder.refuse(key_of(pod), pod["metadata"].get("uid") or "")


class _Bind(NamedTuple):
    request: Object
    pod: Object
    given: Given | None = None

    @property
    def node(self) -> str:
        return (self.request.get("spec") or {}).get("selectedNode") or ""


def _groups(request: Object) -> tuple[str, ...]:
    groups = (request.get("spec") or {}).get("selectedGPUGroups") or ()
    return tuple(sorted({str(group) for group in groups}))


def _is_share(request: Object) -> bool:
    return (request.get("spec") or {}).get("receivedResourceType") == "Fraction"


def _group(pod: Object) -> Key:
    group = (pod["metadata"].get("annotations") or {}).get(names.POD_GROUP) or ""
    return Key(pod["metadata"].get("namespace") or "", group)


def _phase(request: Object) -> str:
    return (request.get("status") or {}).get("phase") or "Pending"


def _pod_key(request: Object) -> Key:
    key = key_of(request)
    return Key(key.namespace, (request.get("spec") or {}).get("podName") or key.name)

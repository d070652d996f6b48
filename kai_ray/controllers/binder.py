"""Puts decisions into the world: a whole gang at once, each pod with one write.

A bind that fails is tried again while its place is kept; then the members that are not bound are
given back and their places released. What a lost reply leaves open is settled by reading, and until
that succeeds the place stays taken. Nothing is kept but in memory: the pods themselves say what has
happened, so a restart loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import (
    AlreadyExists,
    ApiError,
    Conflict,
    Key,
    NotFound,
    Object,
    TooManyRequests,
    Unavailable,
    Write,
)
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers import backoff
from kai_ray.controllers.bind_failures import BindFailures
from kai_ray.controllers.card_claims import DEVICES, CardClaims
from kai_ray.controllers.claims import Claims
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.device_claims import DeviceClaims
from kai_ray.controllers.device_notices import Given, Refused, Want
from kai_ray.controllers.events import Events
from kai_ray.controllers.grants import Grant, binding, grants_of, request
from kai_ray.encode import Encoded, Encoder
from kai_ray.scheduler import Plan

#: A reply that leaves open whether the write has happened.
OPEN = (Conflict, AlreadyExists, Unavailable, TooManyRequests)
_RELEASE = "release "


class Binder:
    """Keys: a gang "namespace/name" to be bound again, "release namespace/pod", or "devices"."""

    name = "binder"

    def __init__(
        self,
        config: ControlConfig,
        encoder: Encoder,
        failures: BindFailures,
        events: Events,
        cards: CardClaims,
    ) -> None:
        self._config = config
        self._encoder = encoder
        self._failures = failures
        self._events = events
        self._cards = cards
        self._open: dict[Key, dict[Key, Grant]] = {}
        self._waiting: set[Key] = set()  # gangs whose shared cards are not there yet
        self._by_request = config.bind_requests == "always"

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pods = runtime.informer(kinds.POD)
        self._nodes = runtime.informer(kinds.NODE)
        self._pods.on_change(self._pod_changed)
        self._cards.setup(runtime, "" if self._by_request else self.name)
        self._claims = Claims(runtime)
        self._devices = DeviceClaims(runtime)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new if new is not None else old
        if pod is None or (new is not None and not new["spec"].get("nodeName")):
            return
        meta = pod["metadata"]
        self._failures.clear(Key(meta.get("namespace") or "", meta["name"]))

    def bind(self, encoded: Encoded, plan: Plan) -> None:
        """Counts the places of the Plan as taken at once, then sends the binds side by side."""
        grants = grants_of(encoded, plan, self._cards.kept_on)
        spoiled = {g.group for g in grants if g.short or not self._valid(g)}
        for g in grants:
            if g.short:  # nobody else of its gang goes either
                self._failed(g, g.short)
                self.refuse(g.pod, g.uid)
        good = [g for g in grants if g.group not in spoiled]
        for g in good:
            given = [(claim.key, claim.uid, claim.held) for claim in g.claims]
            self._encoder.assume(g.pod, g.uid, g.node, g.groups, g.zones, given)
            self._open.setdefault(g.group, {})[g.pod] = g
        self._send(good)

    def failing(self) -> Iterable[Key]:
        """Pods whose bind has failed and has not succeeded since."""
        return self._failures.pods()

    def reconcile(self, key: str) -> float | None:
        if key.startswith(_RELEASE):
            self._encoder.release_pod(_key(key.removeprefix(_RELEASE)))
            self._runtime.enqueue("scheduler", "cycle")
            return None
        if key == DEVICES:
            stirred = self._cards.stirred()
            mine = [g for g in self._open if g in self._waiting and stirred & self._open[g].keys()]
            self._resend([g for group in mine for g in self._open[group].values()])
        else:
            self._resend(list(self._open.get(_key(key), {}).values()))
        return None

    def _resend(self, grants: list[Grant]) -> None:
        grants = [g for g in grants if not g.flying]
        gone = [g for g in grants if not self._valid(g)]
        for g in gone:
            self._give_back(g)
        self._send([g for g in grants if g not in gone])

    def _valid(self, g: Grant) -> bool:
        """Whether the world is still as it was when this was decided."""
        pod = self._pods.get(g.pod.name, g.pod.namespace)
        node = self._nodes.get(g.node)
        if pod is None or node is None or (node.get("spec") or {}).get("unschedulable"):
            return False
        meta = pod["metadata"]
        return (
            meta.get("uid", "") == g.uid
            and not meta.get("deletionTimestamp")
            and not pod["spec"].get("nodeName")
        )

    def _send(self, grants: list[Grant]) -> None:
        if not grants:
            return
        port = self._runtime.port
        form = request if self._by_request else binding
        ready = self._with_devices(self._with_claims(self._with_shares(grants)))
        writes = [form(port, g, self._config) for g in ready]
        groups = list(dict.fromkeys(g.group for g in grants))
        if not writes:
            self._sent(groups, [], [])
            return
        now = self._runtime.clock.now()
        for g in ready:
            g.flying, g.sent_s = True, now
        self._runtime.post(writes, partial(self._sent, groups, ready), urgent=True)

    def _sent(self, groups: list[Key], ready: list[Grant], outcomes: list[Any]) -> None:
        for g, outcome in zip(ready, outcomes, strict=True):
            g.flying = False
            self._settle(g, outcome)
        for group in groups:
            self._after(group)

    def _with_claims(self, grants: list[Grant]) -> list[Grant]:
        """The grants whose claims know their node."""
        first: list[tuple[Grant, Write]] = []
        for g in grants:
            pod = self._pods.get(g.pod.name, g.pod.namespace)
            if pod is not None and pod["spec"].get("volumes"):
                first += [(g, write) for write in self._claims.writes(g, pod)]
        if not first:
            return grants
        failed: dict[Key, ApiError] = {}
        outcomes = self._runtime.port.batch([write for _, write in first])
        for (g, _), outcome in zip(first, outcomes, strict=True):
            if isinstance(outcome, ApiError) and g.pod not in failed:
                failed[g.pod] = outcome
                self._failed(g, f"its volume claim was not told the node: {outcome.message}")
        return [g for g in grants if g.pod not in failed]

    def _with_devices(self, grants: list[Grant]) -> list[Grant]:
        """The grants whose resource claims have their devices, and are reserved for them."""
        if not any(g.claims for g in grants):
            return grants
        failed = self._devices.allocate(grants)
        for g, message in failed:
            self._failed(g, message)
        pods = {g.pod for g, _ in failed}
        return [g for g in grants if g.pod not in pods]

    def _with_shares(self, grants: list[Grant]) -> list[Grant]:
        """The grants whose shared cards are there. A gang is bound once all of its are."""
        sharing = [g for g in grants if g.groups]
        if not sharing or self._by_request:
            return grants
        found = self._cards.prepare([Want(g.pod, g.uid, g.node, g.groups) for g in sharing])
        self._waiting -= {g.group for g in sharing}
        lost: set[Key] = set()
        for g in sharing:
            outcome = found[g.pod]
            if isinstance(outcome, Given):
                g.given = outcome
            elif isinstance(outcome, Refused):
                self._failed(g, outcome.message, by_node=outcome.by_node)
                lost.add(g.group)
            else:
                self._waiting.add(g.group)
        for group in lost:
            self._waiting.discard(group)
            self._give_up(group)
        return [g for g in grants if g.group not in self._waiting and g.group not in lost]

    def _give_up(self, group: Key) -> None:
        """What is left of a gang is not bound, but for what may have been already."""
        mine = self._open.get(group, {}).values()
        for g in [g for g in mine if not g.unsure and not g.flying]:
            self.refuse(g.pod, g.uid)
            self._forget(g)

    def _settle(self, g: Grant, outcome: Any) -> None:
        if not isinstance(outcome, ApiError):
            if self._config.on_bound is not None:
                self._config.on_bound(self._runtime.clock.now() - g.sent_s)
            self._done(g)
        elif isinstance(outcome, NotFound):
            self._give_back(g)
        elif isinstance(outcome, OPEN):
            self._read(g, outcome)
        else:
            self._failed(g, outcome.message)

    def _read(self, g: Grant, outcome: ApiError) -> None:
        """The object itself says whether the write has happened."""
        port = self._runtime.port
        try:
            if self._by_request and self._requested(g):
                self._done(g)
                return
            pod = port.get(kinds.POD, g.pod.name, g.pod.namespace)
        except NotFound:
            self._give_back(g)
            return
        except ApiError:
            g.unsure = True
            self._failed(g, outcome.message)
            return
        g.unsure = False
        self._pods.remember(pod)
        node = pod["spec"].get("nodeName")
        if pod["metadata"].get("uid", "") != g.uid or (node and node != g.node):
            self._give_back(g)
        elif node:
            self._done(g)
        else:
            self._failed(g, outcome.message)

    def _requested(self, g: Grant) -> bool:
        """Whether our BindRequest is there; one that stands in its way is removed."""
        port = self._runtime.port
        try:
            found = port.get(kinds.BIND_REQUEST, g.pod.name, g.pod.namespace)
        except NotFound:
            return False
        owners = {r.get("uid") for r in found["metadata"].get("ownerReferences") or ()}
        spec, phase = found.get("spec") or {}, (found.get("status") or {}).get("phase")
        if g.uid in owners and spec.get("selectedNode") == g.node and phase != "Failed":
            return True
        uid = found["metadata"].get("uid") or ""
        port.delete(kinds.BIND_REQUEST, g.pod.name, g.pod.namespace, uid=uid)
        return False

    def _done(self, g: Grant) -> None:
        self._forget(g)
        if g.given is not None and g.given.warning:
            warning = g.given.warning
            self._events.warn(kinds.POD, g.pod, g.uid, "SharedWithoutIsolation", warning)
        if not self._by_request:
            self._failures.clear(g.pod)

    def _forget(self, g: Grant) -> None:
        mine = self._open.get(g.group)
        if mine is not None:
            mine.pop(g.pod, None)
            if not mine:
                del self._open[g.group]

    def _give_back(self, g: Grant) -> None:
        self._forget(g)
        self._cards.drop(g.pod)
        self._encoder.forget(g.pod)
        self._runtime.enqueue("scheduler", "cycle")

    def _failed(self, g: Grant, message: str, *, by_node: bool = True) -> None:
        self._failures.note(g.pod, g.uid, g.group, message, by_node=by_node)
        self._events.warn(
            kinds.POD, g.pod, g.uid, "BindFailed", f"not bound to {g.node}: {message}"
        )

    def _after(self, group: Key) -> None:
        """Tries what is left again, or gives all of it back."""
        left = self._open.get(group)
        if not left:
            self._waiting.discard(group)
            return
        if group in self._waiting:
            wait = self._config.reservation_wait_s
            self._runtime.enqueue(self.name, _text(group), wait)
            return
        worst = max(self._failures.count(g.pod, g.uid) for g in left.values())
        tired = worst >= self._config.bind_tries
        if tired:
            self._give_up(group)
        if self._open.get(group):
            self._runtime.enqueue(self.name, _text(group), backoff.wait_s(worst))

    def refuse(self, pod: Key, uid: str) -> None:
        """Releases the place of a pod and keeps it back for a while, if its own bind failed."""
        if self._failures.count(pod, uid):
            wait = self._failures.hold(pod, uid)
            self._runtime.enqueue(self.name, _RELEASE + _text(pod), wait)
        self._cards.drop(pod)
        self._encoder.forget(pod)
        self._runtime.enqueue("scheduler", "cycle")


def _text(key: Key) -> str:
    return f"{key.namespace}/{key.name}"


def _key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    return Key(namespace, name)

"""Puts decisions into the world: a whole gang at once, each pod with one write.

A bind that fails is tried again while its place is kept; then the members that are not bound are
given back and their places released. What a lost reply leaves open is settled by reading. Nothing
is kept but in memory: the pods themselves say what has happened, so a restart loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import (
    AlreadyExists,
    ApiError,
    Conflict,
    Key,
    NotFound,
    TooManyRequests,
    Unavailable,
    Write,
)
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers import backoff
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.events import Events
from kai_ray.encode import Encoded, Encoder
from kai_ray.encode.groups import DEFAULT_LEAF
from kai_ray.scheduler import Plan

#: A reply that leaves open whether the bind has happened.
_OPEN = (Conflict, AlreadyExists, Unavailable, TooManyRequests)
_RELEASE = "release "


@dataclass(slots=True)
class Grant:
    """One pod's way to its node."""

    pod: Key
    uid: str
    node: str
    group: Key
    subgroup: str
    stamp_group: bool  # the pod does not carry its group yet


@dataclass(slots=True)
class Failure:
    """What is known of a pod whose bind has failed."""

    uid: str
    group: Key
    failures: int
    message: str
    until_s: float = 0.0  # held until then; 0 = its place is still kept


class Binder:
    """Keys: a gang "namespace/name" to be bound again, or "release namespace/pod"."""

    name = "binder"

    def __init__(self, config: ControlConfig, encoder: Encoder, events: Events) -> None:
        self._config = config
        self._encoder = encoder
        self._events = events
        self._open: dict[Key, dict[Key, Grant]] = {}
        self.failures: dict[Key, Failure] = {}
        self.bound = 0
        self.on_failure: Callable[[Key], None] = lambda group: None

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pods = runtime.informer(kinds.POD)
        self._nodes = runtime.informer(kinds.NODE)
        self._pods.on_change(self._pod_changed)

    def _pod_changed(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        if new is None and old is not None and self.failures:
            meta = old["metadata"]
            self._clear(Key(meta.get("namespace") or "", meta["name"]))

    def bind(self, encoded: Encoded, plan: Plan) -> None:
        """Binds all that the plan says, gang by gang in its order."""
        self.grant(self.grants(encoded, plan))

    def grants(self, encoded: Encoded, plan: Plan) -> list[Grant]:
        tasks, roots = encoded.snapshot.tasks, encoded.snapshot.gangs.root
        found: list[Grant] = []
        for task, node in zip(plan.bind_task.tolist(), plan.bind_node.tolist(), strict=True):
            pod = encoded.names.pod_object(task)
            if pod is None:
                continue
            gang = int(tasks.gang[task])
            group = encoded.names.gang(gang)
            leaf = int(tasks.leaf[task]) - int(roots[gang])
            annotations = pod["metadata"].get("annotations") or {}
            found.append(
                Grant(
                    pod=encoded.names.pod(task),
                    uid=pod["metadata"].get("uid") or "",
                    node=encoded.names.node(node),
                    group=group,
                    subgroup=encoded.names.leaf_names[group][leaf],
                    stamp_group=annotations.get(names.POD_GROUP) != group.name,
                )
            )
        return found

    def grant(self, grants: list[Grant]) -> None:
        """Counts the places as taken at once, then sends the binds side by side."""
        spoiled = {g.group for g in grants if not self._valid(g)}
        good = [g for g in grants if g.group not in spoiled]
        for g in good:
            self._encoder.assume(g.pod, g.uid, g.node)
            self._open.setdefault(g.group, {})[g.pod] = g
        self._send(good)

    def reconcile(self, key: str) -> float | None:
        if key.startswith(_RELEASE):
            self._encoder.release_pod(_key(key.removeprefix(_RELEASE)))
            self._runtime.enqueue("scheduler", "cycle")
            return None
        group = _key(key)
        grants = list(self._open.get(group, {}).values())
        gone = [g for g in grants if not self._valid(g)]
        for g in gone:
            self._give_back(g)
        self._send([g for g in grants if g not in gone])
        return None

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
        writes = [
            Write(port.bind, (g.pod.namespace, g.pod.name, g.node), self._arguments(g))
            for g in grants
        ]
        for g, outcome in zip(grants, port.batch(writes), strict=True):
            self._settle(g, outcome)
        for group in dict.fromkeys(g.group for g in grants):
            self._after(group)

    def _arguments(self, g: Grant) -> dict[str, Any]:
        labels: dict[str, str] = {}
        annotations: dict[str, str] = {}
        if g.stamp_group:
            annotations[names.POD_GROUP] = g.group.name
            if g.subgroup != DEFAULT_LEAF:
                labels[names.SUBGROUP] = g.subgroup
        encode = self._config.encode
        if encode.node_pool:
            labels[encode.node_pool_key] = encode.node_pool
        return {"uid": g.uid, "labels": labels or None, "annotations": annotations or None}

    def _settle(self, g: Grant, outcome: Any) -> None:
        if not isinstance(outcome, ApiError):
            self._done(g)
        elif isinstance(outcome, NotFound):
            self._give_back(g)
        elif isinstance(outcome, _OPEN):
            self._read(g, outcome)
        else:
            self._failed(g, outcome.message)

    def _read(self, g: Grant, outcome: ApiError) -> None:
        """The pod itself says whether the bind has happened."""
        try:
            pod = self._runtime.port.get(kinds.POD, g.pod.name, g.pod.namespace)
        except NotFound:
            self._give_back(g)
            return
        except ApiError:
            self._failed(g, outcome.message)
            return
        self._pods.remember(pod)
        node = pod["spec"].get("nodeName")
        if pod["metadata"].get("uid", "") != g.uid or (node and node != g.node):
            self._give_back(g)
        elif node:
            self._done(g)
        else:
            self._failed(g, outcome.message)

    def _done(self, g: Grant) -> None:
        self.bound += 1
        self._forget_grant(g)
        self._clear(g.pod)

    def _clear(self, pod: Key) -> None:
        if self.failures.pop(pod, None) is not None:
            self._encoder.release_pod(pod)

    def _forget_grant(self, g: Grant) -> None:
        mine = self._open.get(g.group)
        if mine is not None:
            mine.pop(g.pod, None)
            if not mine:
                del self._open[g.group]

    def _give_back(self, g: Grant) -> None:
        self._forget_grant(g)
        self._encoder.forget(g.pod)
        self._runtime.enqueue("scheduler", "cycle")

    def _failed(self, g: Grant, message: str) -> None:
        known = self.failures.get(g.pod)
        count = known.failures + 1 if known is not None and known.uid == g.uid else 1
        self.failures[g.pod] = Failure(g.uid, g.group, count, message)
        self.on_failure(g.group)
        self._events.warn(
            kinds.POD, g.pod, g.uid, "BindFailed", f"not bound to {g.node}: {message}"
        )

    def _after(self, group: Key) -> None:
        """Tries what is left again, or gives all of it back."""
        left = self._open.get(group)
        if not left:
            return
        worst = max(self._count(g) for g in left.values())
        if worst < self._config.bind_tries:
            self._runtime.enqueue(self.name, _text(group), backoff.wait_s(worst))
            return
        for g in list(left.values()):
            failure = self.failures.get(g.pod)
            if failure is not None and failure.uid == g.uid:
                wait = backoff.wait_s(failure.failures)
                failure.until_s = self._runtime.clock.now() + wait
                self._encoder.hold_pod(g.pod, g.uid)
                self._runtime.enqueue(self.name, _RELEASE + _text(g.pod), wait)
            self._give_back(g)

    def _count(self, g: Grant) -> int:
        failure = self.failures.get(g.pod)
        return failure.failures if failure is not None and failure.uid == g.uid else 0

    def failing(self, group: Key) -> str | None:
        """Why members of a gang are held back after failed binds; None if none is."""
        for pod, failure in self.failures.items():
            if failure.group == group:
                times = f"{failure.failures} times" if failure.failures > 1 else "once"
                return f"binding pod {pod.name} failed {times}: {failure.message}"
        return None


def _text(key: Key) -> str:
    return f"{key.namespace}/{key.name}"


def _key(text: str) -> Key:
    namespace, _, name = text.partition("/")
    return Key(namespace, name)

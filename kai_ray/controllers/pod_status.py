"""PodScheduled=False on pods that wait, so that users and node scalers see why.

Written once per reason, and only a while after the gang was found waiting: a pod that starts at
once is written to only by its binding. The same write names the node that a pod is next in line
for (status.nominatedNodeName), as kube-scheduler does.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import (
    ApiError,
    Conflict,
    Key,
    Object,
    TooManyRequests,
    Unavailable,
    Write,
)
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.conditions import condition, find
from kai_ray.controllers.config import ControlConfig
from kai_ray.controllers.cycle import Cycle
from kai_ray.controllers.podgroup_status import NOT_COMPLETE
from kai_ray.controllers.verdict import Verdicts
from kai_ray.controllers.words import word
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import TaskState

_AGAIN_S = 1.0
#: Reasons of pods that have been promised a place.
_NEXT = (Reason.WAITING_FOR_VICTIMS, Reason.WAITING_FOR_RELEASE)


class Told(NamedTuple):
    """What is written on a pod."""

    reason: str
    message: str
    node: str = ""  # that it is next in line for


class PodConditions:
    def __init__(self, config: ControlConfig, controller: str) -> None:
        """controller: whose key "pods" calls `flush`."""
        self._config = config
        self._controller = controller
        self._flying: set[Key] = set()
        self._due: dict[Key, None] = {}
        self._again: dict[Key, Told] = {}  # pods whose write has to be repeated

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pods = runtime.informer(kinds.POD)
        self._groups = runtime.informer(kinds.POD_GROUP)

    def due(self, group: Key) -> None:
        """The pods of this gang are to be told why they wait."""
        self._due[group] = None

    def flush(self, cycle: Cycle, verdicts: Verdicts) -> float | None:
        texts, self._again = self._again, {}
        self._waiting(cycle, verdicts, texts)
        self._renamed(cycle, verdicts, texts)
        self._astray(cycle, texts)
        news: dict[Key, Told] = {}
        for key, told in texts.items():
            if key in self._flying:
                self._again[key] = told
            elif self._is_news(key, told):
                news[key] = told
        writes = [self._write(key, told) for key, told in news.items()]
        if writes:
            self._flying.update(news)
            self._runtime.post(writes, partial(self._written, news))
        if self._due:
            return 0.0
        return _AGAIN_S if self._again else None

    def _written(self, news: dict[Key, Told], outcomes: list[Any]) -> None:
        self._flying.difference_update(news)
        for (key, told), outcome in zip(news.items(), outcomes, strict=True):
            if isinstance(outcome, (Conflict, Unavailable, TooManyRequests)):
                self._again[key] = told
            elif not isinstance(outcome, ApiError):
                self._pods.remember(outcome)
        if self._again:
            self._runtime.enqueue(self._controller, "pods", _AGAIN_S)

    def _is_news(self, key: Key, told: Told) -> bool:
        """Whether the pod still waits and has not been told."""
        pod = self._pods.get(key.name, key.namespace)
        if pod is None or pod["spec"].get("nodeName"):
            return False
        return not _says(pod, told.reason) or (_next(pod) != told.node and bool(told.node))

    def _waiting(self, cycle: Cycle, verdicts: Verdicts, texts: dict[Key, Told]) -> None:
        if not self._due:
            return
        encoded, nodes = cycle.encoded, _next_in_line(cycle)
        tasks = encoded.snapshot.tasks
        pending = np.flatnonzero((tasks.gang >= 0) & (cycle.state == TaskState.PENDING))
        pending = pending[np.argsort(tasks.gang[pending], kind="stable")]
        sorted_gangs = tasks.gang[pending]
        row_of = {key: i for i, key in enumerate(encoded.names.gangs)}
        while self._due and len(texts) < self._config.status_batch:
            group = next(iter(self._due))
            del self._due[group]
            verdict, row = verdicts.of(group), row_of.get(group)
            if verdict is None or row is None or verdict.reason in NOT_COMPLETE:
                continue
            if self._quiet(group):
                continue
            first, last = np.searchsorted(sorted_gangs, [row, row + 1])
            for task in pending[first:last].tolist():
                node = nodes.get(task, "")
                texts[encoded.names.pod(task)] = Told(verdict.word, verdict.message, node)

    def _renamed(self, cycle: Cycle, verdicts: Verdicts, texts: dict[Key, Told]) -> None:
        """Pods that are next in line for another node than they were told."""
        names, gang = cycle.encoded.names, cycle.encoded.snapshot.tasks.gang
        for task, node in _next_in_line(cycle).items():
            key, verdict = names.pod(task), verdicts.of(names.gang(int(gang[task])))
            pod = self._pods.get(key.name, key.namespace)
            if pod is None or verdict is None or key in texts or _next(pod) in ("", node):
                continue
            if _says(pod, verdict.word):
                texts[key] = Told(verdict.word, verdict.message, node)

    def _quiet(self, group: Key) -> bool:
        found = self._groups.get(group.name, group.namespace) or {}
        return (found.get("spec") or {}).get("markUnschedulable") is False

    def _astray(self, cycle: Cycle, texts: dict[Key, Told]) -> None:
        """Pods that belong nowhere, and pods that cannot be read."""
        for pod, group, subgroup, exists in cycle.encoded.orphans:
            if not group:
                continue
            if not exists and self._groups.get(group, pod.namespace) is not None:
                continue  # the gang is another node pool's
            if exists:
                text = f"PodGroup {group} has no subgroup {subgroup!r}: change the pod's label"
            else:
                text = f"PodGroup {group} does not exist: create it or change the annotation"
            texts[pod] = Told(word(Reason.SUBGROUP_NOT_FOUND), text)
        for problem in cycle.encoded.problems:
            if problem.kind == "Pod":
                texts[Key(problem.namespace, problem.name)] = Told(
                    word(Reason.MISCONFIGURED),
                    problem.message,
                )

    def _write(self, key: Key, told: Told) -> Write:
        now, said = rfc3339(self._runtime.clock.now()), f"{told.reason}: {told.message}"
        made = condition("PodScheduled", False, "Unschedulable", said, now=now)
        status: Object = {"conditions": [made]}
        pod = self._pods.get(key.name, key.namespace)
        if told.node or (pod is not None and _next(pod)):
            status["nominatedNodeName"] = told.node or None
        return Write(
            self._runtime.port.patch,
            (kinds.POD, key.name, {"status": status}, key.namespace),
            {"patch_type": "strategic", "subresource": "status"},
        )


def _says(pod: Object, reason: str) -> bool:
    known = find(pod, "PodScheduled")
    return known.get("status") == "False" and str(known.get("message")).startswith(f"{reason}:")


def _next(pod: Object) -> str:
    """The node that we have told a pod it is next in line for."""
    status = pod.get("status") or {}
    ours = any(_says(pod, word(reason)) for reason in _NEXT)
    return (status.get("nominatedNodeName") or "") if ours else ""


def _next_in_line(cycle: Cycle) -> dict[int, str]:
    """Pods that wait for room on a node, by task row; those that have to leave first are not."""
    plan, names = cycle.plan, cycle.encoded.names
    leaving = set(plan.evict_task.tolist())
    rows = zip(plan.nominate_task.tolist(), plan.nominate_node.tolist(), strict=True)
    return {task: names.node(node) for task, node in rows if task not in leaving}

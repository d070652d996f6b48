"""PodScheduled=False on pods that wait, so that users and node scalers see why.

Written once per reason, and only a while after the gang was found waiting: a pod that starts at
once is written to only by its binding.
"""

from __future__ import annotations

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


class PodConditions:
    def __init__(self, config: ControlConfig) -> None:
        self._config = config
        self._due: dict[Key, None] = {}
        self._again: dict[Key, tuple[str, str]] = {}  # pods whose write has to be repeated

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
        self._astray(cycle, texts)
        news = {key: text for key, text in texts.items() if self._is_news(key, text[0])}
        writes = [self._write(key, *text) for key, text in news.items()]
        outcomes = self._runtime.port.batch(writes) if writes else []
        for (key, text), outcome in zip(news.items(), outcomes, strict=True):
            if isinstance(outcome, (Conflict, Unavailable, TooManyRequests)):
                self._again[key] = text
            elif not isinstance(outcome, ApiError):
                self._pods.remember(outcome)
        if self._due:
            return 0.0
        return _AGAIN_S if self._again else None

    def _is_news(self, key: Key, reason: str) -> bool:
        """Whether the pod still waits and has not been told."""
        pod = self._pods.get(key.name, key.namespace)
        return pod is not None and not pod["spec"].get("nodeName") and not _says(pod, reason)

    def _waiting(self, cycle: Cycle, verdicts: Verdicts, texts: dict[Key, tuple[str, str]]) -> None:
        if not self._due:
            return
        encoded = cycle.encoded
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
                texts[encoded.names.pod(task)] = (verdict.word, verdict.message)

    def _quiet(self, group: Key) -> bool:
        found = self._groups.get(group.name, group.namespace) or {}
        return (found.get("spec") or {}).get("markUnschedulable") is False

    def _astray(self, cycle: Cycle, texts: dict[Key, tuple[str, str]]) -> None:
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
            texts[pod] = (word(Reason.SUBGROUP_NOT_FOUND), text)
        for problem in cycle.encoded.problems:
            if problem.kind == "Pod":
                texts[Key(problem.namespace, problem.name)] = (
                    word(Reason.MISCONFIGURED),
                    problem.message,
                )

    def _write(self, key: Key, reason: str, message: str) -> Write:
        now = rfc3339(self._runtime.clock.now())
        made = condition("PodScheduled", False, "Unschedulable", f"{reason}: {message}", now=now)
        return Write(
            self._runtime.port.patch,
            (kinds.POD, key.name, {"status": {"conditions": [made]}}, key.namespace),
            {"patch_type": "strategic", "subresource": "status"},
        )


def _says(pod: Object, reason: str) -> bool:
    known = find(pod, "PodScheduled")
    return known.get("status") == "False" and str(known.get("message")).startswith(f"{reason}:")

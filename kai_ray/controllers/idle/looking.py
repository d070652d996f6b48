"""Which gangs do not use their GPUs just now, by the rule of their queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key, Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.cycle import Cycle
from kai_ray.controllers.queue_deadlines import holding
from kai_ray.controllers.suspensions import BY_GROUP, group_texts
from kai_ray.encode import traits
from kai_ray.encode.idle_rules import IdleRule, protected_until_s
from kai_ray.encode.problems import Malformed
from kai_ray.encode.queue_policy import QueuePolicy
from kai_ray.gpu.use import GpuUse, PodUse

_ENDED = ("Succeeded", "Failed")


class Finding(NamedTuple):
    """A gang that does not use its GPUs just now."""

    key: Key
    group: Object
    rule: IdleRule
    use: PodUse
    protected_until_s: float | None  # None: it is not in protected hours
    protected_due: Callable[[float], float]  # a moment -> the same or the end of such hours


class Looking:
    """Reads; writes nothing. Nodes are read only once some queue has a rule."""

    def __init__(self) -> None:
        self._use = GpuUse()

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._groups = runtime.informer(kinds.POD_GROUP)
        self._pods = runtime.informer(kinds.POD)
        self._pods.add_index(BY_GROUP, group_texts)

    def find(self, cycle: Cycle, now: float) -> list[Finding]:
        """Of all gangs that hold GPUs in queues with a rule."""
        self._use.setup(self._runtime)
        encoded = cycle.encoded
        policies = encoded.policies
        ruled = np.array([bool(p.idle) for p in policies] + [False])
        rows = np.flatnonzero(holding(cycle) & ruled[encoded.snapshot.gangs.queue])
        found: list[Finding] = []
        for row in rows.tolist():
            key = encoded.names.gang(row)
            group = self._groups.get(key.name, key.namespace)
            if group is None or names.IDLE_EVICTED in (group["metadata"].get("annotations") or {}):
                continue
            policy = policies[int(encoded.snapshot.gangs.queue[row])]
            one = self._look_at(key, group, policy, now)
            if one is not None:
                found.append(one)
        return found

    def _look_at(self, key: Key, group: Object, policy: QueuePolicy, now: float) -> Finding | None:
        kind = _type_of(group, policy)
        rule = next((r for r in policy.idle or () if r.fits(kind)), None)
        if rule is None:
            return None
        use = self.use_of(key, now)
        if use.utilization is None or use.utilization >= rule.below:
            return None
        spans = (policy.protected or ()) if kind == "build" else ()

        def due(moment_s: float) -> float:
            return protected_until_s(spans, moment_s) or moment_s

        return Finding(key, group, rule, use, protected_until_s(spans, now), due)

    def use_of(self, key: Key, now: float) -> PodUse:
        return self._use.of_pods(self.running(key), now)

    def running(self, key: Key) -> list[Object]:
        """The pods of a gang that run and stay."""
        return [
            pod
            for pod in self._of(key)
            if (pod.get("status") or {}).get("phase") == "Running"
            and not pod["metadata"].get("deletionTimestamp")
        ]

    def holds(self, key: Key) -> bool:
        """Whether any of its pods has a place."""
        return any(
            pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase") not in _ENDED
            for pod in self._of(key)
        )

    def _of(self, key: Key) -> list[Object]:
        return self._pods.by_index(BY_GROUP, f"{key.namespace}/{key.name}")


def _type_of(group: Object, policy: QueuePolicy) -> str:
    """The workload type: stated, else that of the priority class."""
    try:
        stated = traits.read(group["metadata"]).type
    except Malformed:
        stated = ""
    spec = group.get("spec") or {}
    return stated or traits.type_of_class(
        spec.get("priorityClassName") or policy.default_priority or ""
    )

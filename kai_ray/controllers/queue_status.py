"""What a Queue's status should say."""

from __future__ import annotations

from collections.abc import Mapping

from kai_ray.cluster.port import Object
from kai_ray.controllers.amounts import resource_list
from kai_ray.controllers.conditions import condition, merged
from kai_ray.controllers.facts import QueueFacts
from kai_ray.encode import Problem

_ROWS = ("cpu", "memory", "gpu")


def desired(queue: Object, row: int, facts: QueueFacts, quota: list[float], now: str) -> Object:
    """Status of a queue that is part of the tree; `quota` per resource, -1 = unlimited."""
    old = queue.get("status") or {}
    allocated = facts.allocated[:, row].tolist()
    over = [
        name
        for name, have, bound in zip(_ROWS, allocated, quota, strict=True)
        if bound >= 0 and have > bound
    ]
    conditions = [
        condition("Ready", True, "Ready", "part of the queue tree", now=now),
        condition(
            "OverQuota",
            bool(over),
            "OverQuota" if over else "WithinQuota",
            f"uses more {', '.join(over)} than its quota" if over else "within its quota",
            now=now,
        ),
    ]
    return {
        **old,
        "childQueues": facts.children[row],
        "allocated": resource_list(allocated, _ROWS),
        "allocatedNonPreemptible": resource_list(facts.held[:, row].tolist(), _ROWS),
        "requested": resource_list(facts.requested[:, row].tolist(), _ROWS),
        "fairShare": _shares(facts.fair_share[:, row].tolist()),
        "pending": int(facts.pending[row]),
        "conditions": merged(old.get("conditions") or (), conditions, ("Orphan",)),
    }


def broken(queue: Object, problem: Problem, now: str) -> Object:
    """Conditions of a queue that starts nothing until it is mended."""
    old = queue.get("status") or {}
    outside = problem.field == "spec.parentQueue"
    reason = "Misconfigured" if not outside else "NotInTree"
    conditions = [condition("Ready", False, reason, problem.message, now=now)]
    if outside:
        conditions.append(condition("Orphan", True, reason, problem.message, now=now))
    drop = () if outside else ("Orphan",)
    return {**old, "conditions": merged(old.get("conditions") or (), conditions, drop)}


def _shares(values: list[float]) -> Mapping[str, str]:
    """Fair shares keep three digits: they are fractions of devices."""
    return resource_list([round(v, 3) for v in values], _ROWS)

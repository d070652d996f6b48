"""PodDisruptionBudgets as a row per budget and a budget per pod.

What the API server's disruption controller says is believed; where nobody computes a status (the
embedded cluster), the same is worked out from the budget's own rule. A pod under several budgets
counts under the one that allows the least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kai_ray.cluster.port import Key, Object
from kai_ray.scheduler.snapshot import Codes, Tasks, TaskState

from .encoded import Names
from .problems import Malformed, texts
from .selectors import Needs, label_selector, matches

_NO_PODS: Codes = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Budget:
    needs: Needs
    allowed: int | None  # from the status; None = to be worked out
    least: Any = None  # minAvailable: a number or a percentage
    most: Any = None  # maxUnavailable


def read(budget: Object) -> Budget | None:
    """None for one that selects nothing. Raises Malformed."""
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    needs = label_selector(spec.get("selector"), "spec.selector")
    if needs is None:
        return None
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    for field, value in (("spec.minAvailable", least), ("spec.maxUnavailable", most)):
        _amount(value, 1, field)
    allowed = status.get("disruptionsAllowed")
    if isinstance(allowed, bool) or not isinstance(allowed, int) or "expectedPods" not in status:
        allowed = None
    return Budget(needs, allowed, least, most)


def _amount(value: Any, pods: int, field: str) -> int:
    """Rounded up, as Kubernetes does for both bounds."""
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit():
        return math.ceil(int(value[:-1]) * pods / 100)
    raise Malformed(field, f"{value!r} is neither a number from 0 nor a percentage")


class BudgetTable:
    def __init__(self) -> None:
        self.rows: dict[Key, Budget] = {}
        self.version = 0

    def put(self, key: Key, budget: Budget | None) -> None:
        if self.rows.get(key) == budget:
            return
        if budget is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = budget
        self.version += 1

    def columns(self, tasks: Tasks, names: Names) -> tuple[Codes | None, tuple[int, ...]]:
        """(Tasks.budget, Snapshot.disruptions)."""
        if not self.rows:
            return None, ()
        order = sorted(self.rows)
        covered = self._covered(order, tasks, names)
        allowed = [
            _allowed(self.rows[key], rows, tasks) for key, rows in zip(order, covered, strict=True)
        ]
        budget = np.full(tasks.count, -1, dtype=np.int32)
        for row in sorted(range(len(order)), key=lambda row: -allowed[row]):
            budget[covered[row]] = row
        return budget, tuple(allowed)

    def _covered(self, order: list[Key], tasks: Tasks, names: Names) -> list[list[int]]:
        """Per budget, the task rows that it selects. Only namespaces with a budget are read."""
        covered: list[list[int]] = [[] for _ in order]
        by_space: dict[str, list[int]] = {}
        for row, key in enumerate(order):
            by_space.setdefault(key.namespace, []).append(row)
        for task in range(tasks.count):
            rows = by_space.get(names.pod(task).namespace)
            if rows is None:
                continue
            pod = names.pod_object(task)
            labels = texts((pod or {"metadata": {}})["metadata"].get("labels"), "metadata.labels")
            for row in rows:
                if matches(self.rows[order[row]].needs, labels):
                    covered[row].append(task)
        return covered


def _allowed(budget: Budget, rows: list[int], tasks: Tasks) -> int:
    if budget.allowed is not None:
        return max(0, budget.allowed)
    healthy = int((tasks.state[rows] == TaskState.RUNNING).sum())
    expected = len(rows)
    if budget.most is not None:
        needed = expected - _amount(budget.most, expected, "")
    else:
        needed = _amount(budget.least, expected, "")
    return max(0, healthy - max(0, needed))

"""Vectors of the rules about victims: who may take, what may be taken, how long a victim is safe.

One function per recorded function: the differences of our rule from the recorded answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kai_ray.scheduler.shares.row import Amounts, QueueRow
from kai_ray.scheduler.shares.tree import path
from kai_ray.scheduler.victims import min_runtime, reclaimable
from kai_ray.scheduler.victims.min_runtime import Resolution
from kai_ray.scheduler.victims.reclaimable import Claim
from tests.conformance.queue_rows import RESOURCES, parents_first, queue_arrays, queue_books_of
from tests.conformance.verdict import Case

Input = dict[str, Any]


def can_reclaim(case: Case) -> list[str]:
    """The gate at the leaf queue."""
    rows, names, parent = _rows(case["input"]["queues"])
    got = reclaimable.may_reclaim(rows, _claim(case["input"]["reclaimer"], names, parent))
    return _compare("can reclaim", got, case["expect"]["can_reclaim"])


def is_reclaimable(case: Case) -> list[str]:
    """Whether a set of victims is legal. A recorded amount is one piece."""
    data = case["input"]
    rows, names, parent = _rows(data["queues"])
    claim = _claim(data["reclaimer"], names, parent)
    pieces = {
        names.index(queue): [_amounts(victim) for victim in victims]
        for queue, victims in data["victims_by_queue"].items()
    }
    paths = {leaf: path(parent, leaf) for leaf in pieces}
    got = reclaimable.reclaimable(rows, paths, claim, pieces, data["saturation_multiplier"])
    return _compare("reclaimable", got, case["expect"]["reclaimable"])


def strategy(case: Case) -> list[str]:
    """One strategy, or any of them, on one pair of queues."""
    data = case["input"]
    sides = {"ours": data["reclaimer_queue"], "other": data["reclaimee_queue"]}
    rows, _, _ = _rows(sides)
    ours, other = rows
    need, remaining = _amounts(data["reclaimer_resources"]), _amounts(data["reclaimee_remaining"])
    match data["strategy"]:
        case "maintain_fair_share":
            got = reclaimable.above_fair_share(other, remaining)
        case "guarantee_deserved_quota":
            got = reclaimable.for_quota(ours, need, other, remaining)
        case _:
            got = reclaimable.takeable(ours, need, other, remaining)
    return _compare("reclaimable", got, case["expect"]["reclaimable"])


def preempt_min_runtime(case: Case) -> list[str]:
    """The time that protects from one's own queue."""
    data = case["input"]
    tree = _Tree(data, "preempt")
    got = min_runtime.preempt_min_runtime_s(
        tree.stated, tree.path(data["victim_queue"]), data["default_preempt_min_runtime_seconds"]
    )
    return _compare("seconds", got, case["expect"]["seconds"])


def reclaim_min_runtime(case: Case) -> list[str]:
    """The time that protects from other queues."""
    data = case["input"]
    tree = _Tree(data, "reclaim")
    got = min_runtime.reclaim_min_runtime_s(
        tree.stated,
        tree.path(data["victim_queue"]),
        tree.path(data["preemptor_queue"]),
        Resolution(data["method"]),
        data["default_reclaim_min_runtime_seconds"],
    )
    return _compare("seconds", got, case["expect"]["seconds"])


class _Tree:
    """Recorded queues with one kind of minimum runtime."""

    def __init__(self, data: Input, kind: str) -> None:
        self._queues = data["queues"]
        self._names = list(self._queues)
        values = [q[f"{kind}_min_runtime_seconds"] for q in self._queues.values()]
        self.stated = [float("nan") if v is None else float(v) for v in values]

    def path(self, queue: Input | None) -> tuple[int, ...]:
        """Leaf first; a queue that does not exist has no path."""
        name, chain = queue["uid"] if queue else "", []
        while name in self._queues:
            chain.append(self._names.index(name))
            name = self._queues[name]["parent"]
        return tuple(chain)


def _rows(recorded: Input) -> tuple[list[QueueRow], list[str], np.ndarray]:
    names = parents_first(recorded)
    queues = queue_arrays(recorded, names)
    return queue_books_of(recorded, names, queues), names, queues.parent


def _claim(reclaimer: Input, names: list[str], parent: np.ndarray) -> Claim:
    chain = path(parent, names.index(reclaimer["queue"]))
    return Claim(chain, _amounts(reclaimer["required"]), reclaimer["preemptible"])


def _amounts(recorded: Input) -> Amounts:
    cpu, memory, gpu = (float(recorded.get(r, 0.0)) for r in RESOURCES)
    return cpu, memory, gpu


def _compare(what: str, got: object, wanted: object) -> list[str]:
    return [] if got == wanted else [f"{what} {got}, wanted {wanted}"]


#: Recorded function -> our check.
CHECKS: dict[str, Callable[[Case], list[str]]] = {
    "can_reclaim": can_reclaim,
    "reclaimable": is_reclaimable,
    "reclaim_strategy": strategy,
    "preempt_min_runtime": preempt_min_runtime,
    "reclaim_min_runtime": reclaim_min_runtime,
}

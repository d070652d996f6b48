"""Vectors of single rules: fair share, capacity, queue order.

One function per recorded function: it runs our rule on the recorded input and returns the
differences from the recorded answer. Shares are compared exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from kai_ray.scheduler import capacity
from kai_ray.scheduler.orders.queue_order import compare
from kai_ray.scheduler.plan import QueueCause
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.shares.divide import Claims, divide, surplus_phase
from kai_ray.scheduler.shares.fair_share import fair_share
from kai_ray.scheduler.shares.row import Amounts
from kai_ray.scheduler.shares.tree import path
from tests.conformance import units_victims
from tests.conformance.queue_rows import (
    RESOURCES,
    amounts,
    parents_first,
    queue_arrays,
    queue_books_of,
)
from tests.conformance.verdict import Case

Input = dict[str, Any]


def hierarchy(case: Case) -> list[str]:
    """Every queue's share of all three resources, level by level."""
    data = case["input"]
    names = parents_first(data["queues"])
    queues = queue_arrays(data["queues"], names)
    total = np.array([data["total"].get(r, 0.0) for r in RESOURCES], dtype=np.float64)
    request = amounts(data["queues"], names, "request")
    share = fair_share(queues, total, request, data["k_value"])
    return _share_differences(case["expect"]["fair_share"], names, share)


def one_resource(case: Case) -> list[str]:
    """One level and one resource; also what stays undivided."""
    return _divide_one(case, lambda total, claims, start, k: divide(total, claims, k))


def over_quota_only(case: Case) -> list[str]:
    """The surplus stage alone, on top of what the quota stage gave."""
    return _divide_one(case, lambda left, claims, start, k: surplus_phase(left, claims, start, k))


def _divide_one(case: Case, rule: Callable[..., tuple[np.ndarray, np.ndarray]]) -> list[str]:
    data = case["input"]
    names = list(data["queues"])
    r = RESOURCES.index(data["resource"])
    start = amounts(data["queues"], names, "fair_share")[r]
    claims = _claims(data["queues"], names, r)
    share, left = rule(np.array([float(data["total"])]), claims, start, data["k_value"])
    expect = case["expect"]
    bad = [
        f"{name}: fair share {share[i]}, wanted {expect['fair_share'][name]}"
        for i, name in enumerate(names)
        if share[i] != expect["fair_share"][name]
    ]
    remaining = max(0.0, float(left[0]))
    if remaining != expect["remaining"]:
        bad.append(f"remaining {remaining}, wanted {expect['remaining']}")
    return bad


def _claims(recorded: Input, names: list[str], r: int) -> Claims:
    queues = queue_arrays(recorded, names)
    tie = np.empty(len(names), dtype=np.int64)
    tie[np.lexsort((queues.rank, queues.created_s))] = np.arange(len(names))
    return Claims(
        pool=np.zeros(len(names), dtype=np.int64),
        priority=queues.priority.astype(np.int64),
        tie=tie,
        quota=queues.quota[r],
        limit=queues.limit[r],
        weight=queues.weight[r],
        usage=queues.usage[r],
        request=amounts(recorded, names, "request")[r],
    )


def _share_differences(expect: Input, names: list[str], share: np.ndarray) -> list[str]:
    return [
        f"{name}: fair share of {resource} {share[r, i]}, wanted {expect[name][resource]}"
        for i, name in enumerate(names)
        for r, resource in enumerate(RESOURCES)
        if name in expect and share[r, i] != expect[name][resource]
    ]


def capacity_policy(case: Case) -> list[str]:
    """Limit and non-preemptible quota at a queue and its ancestors."""
    data, expect = case["input"], case["expect"]
    names = parents_first(data["queues"])
    queues = queue_arrays(data["queues"], names)
    rows = queue_books_of(data["queues"], names, queues)
    chain = path(queues.parent, names.index(data["queue"]))
    request = _request(data["requested"])
    cause = None
    if "limit" in data["checks"]:
        cause = capacity.over_limit(rows, chain, request)
    if cause is None and "non_preemptible_quota" in data["checks"] and not data["preemptible"]:
        cause = capacity.over_quota(rows, chain, request)
    bad = []
    if (cause is None) != expect["schedulable"]:
        bad.append(f"refused for {cause}, wanted schedulable={expect['schedulable']}")
    elif cause is not None:
        bad += _cause_differences(cause, names, expect)
    return bad


def _request(requested: Input) -> Amounts:
    """A recorded null is NaN: it compares as fitting."""
    cpu, memory, gpu = (requested.get(r, 0.0) for r in RESOURCES)
    return tuple(float("nan") if v is None else float(v) for v in (cpu, memory, gpu))  # type: ignore[return-value]


_REASON_WORDS = {
    Reason.OVER_LIMIT: "OverLimit",
    Reason.NON_PREEMPTIBLE_OVER_QUOTA: "NonPreemptibleOverQuota",
}
#: One unit of a recorded sentence, in the units of the core: cores, 10^9 bytes, devices.
_SENTENCE_UNIT = (1000.0, 1e9, 1.0)


def _cause_differences(cause: QueueCause, names: list[str], expect: Input) -> list[str]:
    """The reason word, and the queue and the figures that the recorded sentence names."""
    bad = []
    if _REASON_WORDS[cause.reason] != expect["reason"]:
        bad.append(f"reason {_REASON_WORDS[cause.reason]}, wanted {expect['reason']}")
    message = expect["message"] or ""
    queue = names[cause.queue]
    if f"{queue} quota" not in message:
        bad.append(f"refused by {queue}, wanted: {message}")
    unit = _SENTENCE_UNIT[cause.resource]
    ours = sorted(x / unit for x in (cause.requested, cause.used, cause.bound))
    figures = re.findall(r"(?<![\w.-])\d+(?:\.\d+)?(?=\s)", message.replace(queue, ""))
    theirs = sorted(float(x) for x in figures)
    if ours != theirs:
        bad.append(f"figures {ours}, wanted {theirs}")
    return bad


def queue_order(case: Case) -> list[str]:
    """Which of two queues goes first."""
    data = case["input"]
    sides = {"left": data["left"], "right": data["right"]}
    names = ["left", "right"]
    queues = queue_arrays(sides, names, created=lambda q: q["created"])
    left, right = queue_books_of(sides, names, queues)
    # With everything equal KAI lets the right one go first; we go by name.
    left.rank, right.rank = 1, 0
    needs = [_request(data[f"{side}_job_required"]) for side in names]
    total = _request(data["total"])
    first = names[0] if compare(left, right, needs[0], needs[1], total) < 0 else names[1]
    wanted = case["expect"]["first"]
    return [] if first == wanted else [f"{first} first, wanted {wanted}"]


#: Recorded function -> our check.
CHECKS: dict[str, Callable[[Case], list[str]]] = {
    "set_fair_share_hierarchy": hierarchy,
    "set_resources_share": hierarchy,
    "set_resource_share": one_resource,
    "divide_over_quota": over_quota_only,
    "capacity_policy": capacity_policy,
    "queue_order": queue_order,
    **units_victims.CHECKS,
}

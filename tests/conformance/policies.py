"""A recorded configuration as a policy: the plugins it lists act, the others do not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from kai_ray.scheduler.actions.allocate import allocate
from kai_ray.scheduler.actions.consolidation import consolidation
from kai_ray.scheduler.actions.preempt import preempt
from kai_ray.scheduler.actions.reclaim import reclaim
from kai_ray.scheduler.actions.stale_gang import stale_gang
from kai_ray.scheduler.cycle import decide as decide_snapshot
from kai_ray.scheduler.gpu.order import DeviceOrder, as_they_come, packed, spread_out
from kai_ray.scheduler.orders.job_order import JobKey
from kai_ray.scheduler.orders.queue_order import Standing
from kai_ray.scheduler.plan import Plan
from kai_ray.scheduler.policy import Placement, Policy, policy
from kai_ray.scheduler.scores.availability import fits_now
from kai_ray.scheduler.scores.gpu_sharing import hosts_share
from kai_ray.scheduler.scores.pod_affinity import liked_company
from kai_ray.scheduler.scores.resource_type import cpu_node_for_cpu_pod
from kai_ray.scheduler.shares.row import Amounts, QueueRow
from kai_ray.scheduler.snapshot import Codes, Snapshot, Tasks
from kai_ray.scheduler.victims.knobs import Evicting
from kai_ray.scheduler.victims.min_runtime import Resolution
from tests.conformance.rounds import Decide
from tests.conformance.scenario import World
from tests.conformance.verdict import Case

#: Scores that belong to a plugin of their own; the layout belongs to `nodeplacement`.
_SCORE_PLUGIN = {
    fits_now: "nodeavailability",
    hosts_share: "gpusharingorder",
    liked_company: "podaffinity",
    cpu_node_for_cpu_pod: "resourcetype",
}
#: Recorded actions.
_ACTIONS = {
    "allocate": allocate,
    "consolidation": consolidation,
    "reclaim": reclaim,
    "preempt": preempt,
    "stalegangeviction": stale_gang,
}


def decide(case: Case) -> Decide:
    """How the recorded configuration decides on a world."""
    chosen = recorded_policy(case["config"], case["run"]["actions"])
    fair = "proportion" in _plugins(case["config"])

    def run(world: World) -> Plan:
        return decide_snapshot(world.snapshot if fair else _unbounded(world.snapshot), chosen)

    return run


def recorded_policy(config: dict[str, Any], actions: list[str]) -> Policy:
    """The policy of a recorded configuration."""
    plugins = _plugins(config)
    place = config["node_placement"] or {}
    chosen = policy(
        gpu=Placement(place["gpu"]) if "gpu" in place else None,
        cpu=Placement(place["cpu"]) if "cpu" in place else None,
        k_value=config["fair_share_k_value"],
    )
    chosen = replace(
        chosen,
        scores=tuple(s for s in chosen.scores if _SCORE_PLUGIN.get(s.rate, "") in {"", *plugins}),
        device_order=_device_order(plugins),
        actions=tuple(_ACTIONS[name] for name in actions),
        evicting=_evicting(config),
    )
    if not config["predicates_plugin_active"]:
        chosen = replace(chosen, filters=())
    if "proportion" not in plugins:
        chosen = replace(chosen, queue_order=_by_age)
    if "priority" not in plugins or "elastic" not in plugins:
        chosen = replace(chosen, job_order=_job_order(plugins))
    if "taskorder" not in plugins:
        chosen = replace(chosen, task_order=_task_order)
    return chosen


def _evicting(config: dict[str, Any]) -> Evicting:
    """The knobs of evicting actions; a minimum runtime is a plugin's."""
    times = next((p["arguments"] for p in config["plugins"] if p["name"] == "minruntime"), {})
    return Evicting(
        max_moved_gangs=config["max_consolidation_preemptees"],
        moving_is_taking=not config["allow_consolidating_reclaim"],
        saturation_multiplier=config["reclaimer_saturation_multiplier"],
        staleness_grace_s=config["staleness_grace_period_seconds"],
        preempt_min_runtime_s=_seconds(times.get("defaultPreemptMinRuntime", "0s")),
        reclaim_min_runtime_s=_seconds(times.get("defaultReclaimMinRuntime", "0s")),
        resolution=Resolution(times.get("reclaimResolveMethod", "lca")),
    )


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}


def _seconds(duration: str) -> float:
    """A Go duration of hours, minutes and seconds."""
    return sum(float(n) * _UNITS[u] for n, u in re.findall(r"([\d.]+)([hms])", duration))


def _device_order(plugins: set[str]) -> DeviceOrder:
    if "gpupack" in plugins:
        return packed
    return spread_out if "gpuspread" in plugins else as_they_come


def _plugins(config: dict[str, Any]) -> set[str]:
    return {plugin["name"] for plugin in config["plugins"]}


def _unbounded(snapshot: Snapshot) -> Snapshot:
    """Without `proportion` nobody reads quotas and limits."""
    queues = snapshot.queues
    free = np.full_like(queues.quota, -1.0)
    return replace(snapshot, queues=replace(queues, quota=free, limit=free))


def _by_age(row: QueueRow, need: Amounts, total: Amounts, victims: Amounts) -> Standing:
    """All queues stand alike: creation, then the name decides."""
    return (False, False, 0, False, 0.0, 0.0)


def _job_order(plugins: set[str]) -> Any:
    def key(priority: int, elastic: int, created_s: float, rank: int) -> JobKey:
        return (
            -priority if "priority" in plugins else 0,
            elastic if "elastic" in plugins else 0,
            created_s,
            rank,
        )

    return key


def _task_order(tasks: Tasks, rows: Codes) -> Codes:
    """By age, then the name."""
    return rows[np.lexsort((tasks.rank[rows], tasks.created_s[rows], tasks.leaf[rows]))]

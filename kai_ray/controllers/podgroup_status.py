"""What a PodGroup's status should say (conditions, KAI's schedulingConditions, resources)."""

from __future__ import annotations

from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster.port import Key, Object
from kai_ray.controllers import facts as f
from kai_ray.controllers.amounts import resource_list
from kai_ray.controllers.conditions import condition, find, merged
from kai_ray.controllers.eviction_words import EVICTED
from kai_ray.controllers.facts import GangFacts, QueueFacts
from kai_ray.controllers.verdict import Verdict
from kai_ray.scheduler.reason import Reason

ON_NODE_POOL = "UnschedulableOnNodePool"
#: KAI's identifiers for its `reasons` list.
_KAI_REASONS = {
    Reason.OVER_LIMIT: "OverLimit",
    Reason.NON_PREEMPTIBLE_OVER_QUOTA: "NonPreemptibleOverQuota",
    Reason.QUEUE_NOT_FOUND: "QueueDoesNotExist",
}
#: Gangs that are not complete are not unschedulable: KAI writes no condition for them.
NOT_COMPLETE = (Reason.GANG_INCOMPLETE, Reason.POD_GATED)


def desired(
    group: Object,
    key: Key,
    gangs: GangFacts,
    queues: QueueFacts,
    verdict: Verdict | None,
    now: str,
) -> Object:
    """The status; equal to the present one where nothing has changed."""
    old = group.get("status") or {}
    row = gangs.row_of[key]
    figures = gangs.figures[:, row].tolist()
    outcome = _outcome(group)
    done = _finished(figures, outcome)
    conditions = [_scheduled(group, figures, done, verdict, now), _ready(group, figures, done, now)]
    if done:
        reason, message = _end(figures, outcome)
        conditions.append(_condition(group, "Finished", True, reason, message, now))
    drop = () if done else ("Finished",)
    if started(figures) and find(group, "Scheduled").get("status") != "True":
        drop = (*drop, EVICTED)  # it is back
    status: Object = {
        **old,
        "phase": _phase(figures, done, outcome),
        "pending": figures[f.PENDING] + figures[f.GATED],
        "running": figures[f.RUNNING],
        "succeeded": figures[f.SUCCEEDED],
        "conditions": merged(old.get("conditions") or (), conditions, drop),
        "resourcesStatus": _resources(figures, gangs, row),
    }
    scheduling = _scheduling(group, figures, queues, gangs, verdict, now)
    if scheduling:
        status["schedulingConditions"] = scheduling
    else:
        status.pop("schedulingConditions", None)
    return status


def started(figures: list[int]) -> bool:
    return bool(figures[f.SATISFIED]) and figures[f.PLACED] > 0


def _outcome(group: Object) -> str:
    """How the workload says it ended, "" while it goes on."""
    return (group["metadata"].get("annotations") or {}).get(names.OUTCOME) or ""


def _finished(figures: list[int], outcome: str) -> bool:
    alive = figures[f.PENDING] + figures[f.GATED] + figures[f.PLACED]
    return (figures[f.SUCCEEDED] > 0 or bool(outcome)) and alive == 0


def _scheduled(
    group: Object, figures: list[int], done: bool, verdict: Verdict | None, now: str
) -> Object:
    total = figures[f.PENDING] + figures[f.GATED] + figures[f.PLACED] + figures[f.SUCCEEDED]
    if done or started(figures):
        message = f"{figures[f.PLACED] + figures[f.SUCCEEDED]} of {total} pods have a place"
        if verdict is not None and not done:
            message += f"; the others wait ({verdict.word}): {verdict.message}"
        return _condition(group, "Scheduled", True, "Scheduled", message, now)
    if verdict is None or verdict.reason is Reason.GANG_INCOMPLETE:
        message = f"{total} of at least {max(1, figures[f.MINIMUM])} pods exist"
        return _condition(group, "Scheduled", False, "GangIncomplete", message, now)
    return _condition(group, "Scheduled", False, verdict.word, verdict.message, now)


def _ready(group: Object, figures: list[int], done: bool, now: str) -> Object:
    """Ready counts pods that run or have ended well."""
    ready = done or (bool(figures[f.READY]) and figures[f.RUNNING] > 0)
    message = f"{figures[f.RUNNING]} run, {figures[f.SUCCEEDED]} succeeded"
    reason = "PodsReady" if ready else "PodsNotReady"
    return _condition(group, "PodsReady", ready, reason, message, now)


def _condition(
    group: Object, kind: str, status: bool, reason: str, message: str, now: str
) -> Object:
    generation = group["metadata"].get("generation")
    return condition(kind, status, reason, message, now=now, generation=generation)


def _phase(figures: list[int], done: bool, outcome: str) -> str:
    if done:
        return "Failed" if outcome.startswith("Failed") else "Finished"
    if started(figures):
        return "Running" if figures[f.RUNNING] else "Scheduled"
    return "Pending"


def _end(figures: list[int], outcome: str) -> tuple[str, str]:
    """Reason and message of the condition that nothing more will come."""
    if outcome.startswith("Failed"):
        return "WorkloadFailed", outcome
    count = figures[f.SUCCEEDED]
    if outcome and not count:
        return "Finished", outcome
    return "Finished", f"{count} {'pod has' if count == 1 else 'pods have'} succeeded, none is left"


def _resources(figures: list[int], gangs: GangFacts, row: int) -> Object:
    allocated = resource_list(f.amounts(figures, gangs, requested=False), gangs.resources)
    requested = resource_list(f.amounts(figures, gangs, requested=True), gangs.resources)
    return {
        "allocated": allocated,
        "allocatedNonPreemptible": {} if gangs.preemptible[row] else allocated,
        "requested": requested,
    }


def _scheduling(
    group: Object,
    figures: list[int],
    queues: QueueFacts,
    gangs: GangFacts,
    verdict: Verdict | None,
    now: str,
) -> list[Any]:
    """KAI's list: one entry per node pool, replaced only when its text changes."""
    old = list((group.get("status") or {}).get("schedulingConditions") or ())
    if figures[f.PENDING] + figures[f.GATED] == 0:
        return []
    if (
        verdict is None
        or not verdict.blocks_start
        or figures[f.PLACED] > 0
        or verdict.reason in NOT_COMPLETE
    ):
        return old
    pool = (group["metadata"].get("labels") or {}).get(names.NODE_POOL) or "default"
    reasons = [_kai_reason(verdict, queues, figures, gangs)]
    text = {"reason": "Unschedulable", "message": verdict.message, "reasons": reasons}
    last = old[-1] if old else {}
    if last.get("nodePool") == pool and all(last.get(k) == v for k, v in text.items()):
        return old
    ids = [int(c.get("transitionID") or 0) for c in old if str(c.get("transitionID")).isdigit()]
    made = {
        "type": ON_NODE_POOL,
        "nodePool": pool,
        "status": "True",
        **text,
        "transitionID": str(max(ids, default=0) + 1),
        "lastTransitionTime": now,
    }
    return [*(c for c in old if c.get("nodePool") != pool), made]


def _kai_reason(
    verdict: Verdict, queues: QueueFacts, figures: list[int], gangs: GangFacts
) -> Object:
    made: Object = {
        "reason": _KAI_REASONS.get(verdict.reason, "PodSchedulingErrors"),
        "message": f"{verdict.word}: {verdict.message}",
    }
    cause = verdict.queue_cause
    if cause is not None and verdict.reason in _KAI_REASONS:
        q, names = cause.queue, ("cpu", "memory", "gpu")
        requested = resource_list(f.amounts(figures, gangs, requested=True)[:3], names)
        made["details"] = {
            "queueDetails": {
                "name": queues.names[q],
                "queueRequestedResources": resource_list(queues.requested[:, q].tolist(), names),
                "queueAllocatedResources": resource_list(queues.allocated[:, q].tolist(), names),
                "queueAllocatedNonPreemptibleResources": resource_list(
                    queues.held[:, q].tolist(), names
                ),
                "podGroupRequestedResources": requested,
            }
        }
    return made

"""What people read about an idle job: the condition, the events, the notification."""

from __future__ import annotations

from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import Object
from kai_ray.controllers.conditions import find
from kai_ray.controllers.idle.record import IdleRecord
from kai_ray.gpu.use import PodUse

#: The condition of a PodGroup.
IDLE = "Idle"
#: Reasons of conditions and events.
WARNING, DRY_RUN, POSTPONED = "IdleWarning", "IdleDryRun", "IdlePostponed"
SUSPENDED, EVICTED, ENDED, FAILED = "IdleSuspended", "IdleEvicted", "IdleEnded", "IdleNotSuspended"
_LEFT = (SUSPENDED, EVICTED)
_DONE = {"suspend": "suspended", "evict": "evicted", "warn": "left alone"}
_FUTURE = {"suspend": "it is suspended", "evict": "it is evicted"}


def finding(use: PodUse, record: IdleRecord) -> str:
    """ "uses 1 % of its 8 GPUs, below 5 % for 30 minutes (idle since …)" """
    part = use.utilization
    percent = "little" if part is None else f"{part * 100:.2g} %"
    gpus = "1 GPU" if use.held == 1 else f"{use.held:g} GPUs"
    return f"uses {percent} of its {gpus}: {record.rule} (idle since {rfc3339(record.since_s)})"


def warning(use: PodUse, record: IdleRecord) -> str:
    said = finding(use, record)
    if record.action == "warn":
        return f"{said}; nothing follows"
    if not record.enforce:
        return f"{said}; dry run: it would be {_DONE[record.action]} at {rfc3339(record.due_s)}"
    return f"{said}; {_FUTURE[record.action]} at {rfc3339(record.due_s)} unless it uses them"


def dry_run(use: PodUse, record: IdleRecord) -> str:
    return f"{finding(use, record)}; dry run: it would be {_DONE[record.action]} now"


def postponed(use: PodUse, record: IdleRecord, why: str) -> str:
    return f"{finding(use, record)}; it would be {_DONE[record.action]} now, but {why}"


def done(use: PodUse, record: IdleRecord, how: str) -> str:
    back = "; kai job resume starts it again" if record.action == "suspend" else ""
    return f"{how}: it {finding(use, record).replace('uses', 'used', 1)}{back}"


def left_sentence(group: Object) -> str:
    """Why a gang that does not run was sent away; "" if it was not for its idle GPUs."""
    said = find(group, IDLE)
    return _said(said) if said.get("reason") in _LEFT else ""


def warned_sentence(group: Object) -> str:
    """What a gang that runs was told of its idle GPUs; "" if nothing."""
    said = find(group, IDLE)
    return _said(said) if said.get("reason") not in _LEFT else ""


def _said(condition: Object) -> str:
    return str(condition.get("message")) if condition.get("status") == "True" else ""

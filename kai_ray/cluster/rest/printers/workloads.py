"""Jobs, and the controllers of the apps group."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster.clock import epoch
from kai_ray.cluster.port import Object

from .column import (
    Cell,
    Column,
    Printer,
    age,
    columns,
    container_columns,
    duration,
    is_true,
    name,
    selector_text,
    since,
)

_POD_COLUMNS = ("Containers", "Images", "Selector")


def _parts(obj: Object) -> tuple[Any, Any]:
    return obj.get("spec") or {}, obj.get("status") or {}


def _job(obj: Object, now: float) -> list[Cell]:
    spec, status = _parts(obj)
    done, wanted = status.get("succeeded") or 0, spec.get("completions")
    if wanted is not None:
        completions = f"{done}/{wanted}"
    elif (spec.get("parallelism") or 1) > 1:
        completions = f"{done}/1 of {spec['parallelism']}"
    else:
        completions = f"{done}/1"
    return [
        name(obj),
        _job_status(obj),
        completions,
        _job_duration(status, now),
        age(obj, now),
        *container_columns(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def _job_status(obj: Object) -> str:
    for word in ("Complete", "Failed"):
        if is_true(obj, word):
            return word
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for word in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(obj, word):
            return word
    return "Running"


def _job_duration(status: Object, now: float) -> str:
    if not status.get("startTime"):
        return ""
    end = epoch(status["completionTime"]) if status.get("completionTime") else now
    return duration(end - epoch(status["startTime"]))


def _cron_job(obj: Object, now: float) -> list[Cell]:
    spec, status = _parts(obj)
    template = ((spec.get("jobTemplate") or {}).get("spec") or {}).get("template")
    last = status.get("lastScheduleTime")
    return [
        name(obj),
        spec.get("schedule") or "",
        spec.get("timeZone") or "<none>",
        str(bool(spec.get("suspend"))),
        len(status.get("active") or ()),
        since(last, now) if last else "<none>",
        age(obj, now),
        *container_columns(template),
        "<none>",
    ]


def _deployment(obj: Object, now: float) -> list[Cell]:
    spec, status = _parts(obj)
    return [
        name(obj),
        f"{status.get('readyReplicas') or 0}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas") or 0,
        status.get("availableReplicas") or 0,
        age(obj, now),
        *container_columns(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def _replicas(obj: Object, now: float) -> list[Cell]:
    spec, status = _parts(obj)
    return [
        name(obj),
        spec.get("replicas", 1),
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        age(obj, now),
        *container_columns(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def _stateful_set(obj: Object, now: float) -> list[Cell]:
    spec, status = _parts(obj)
    ready = f"{status.get('readyReplicas') or 0}/{spec.get('replicas', 1)}"
    return [name(obj), ready, age(obj, now), *container_columns(spec.get("template"))]


def _daemon_set(obj: Object, now: float) -> list[Cell]:
    spec, status = _parts(obj)
    pod_spec = ((spec.get("template") or {}).get("spec")) or {}
    return [
        name(obj),
        status.get("desiredNumberScheduled") or 0,
        status.get("currentNumberScheduled") or 0,
        status.get("numberReady") or 0,
        status.get("updatedNumberScheduled") or 0,
        status.get("numberAvailable") or 0,
        selector_text(pod_spec.get("nodeSelector")),
        age(obj, now),
        *container_columns(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def _revision(obj: Object, now: float) -> list[Cell]:
    owners = obj["metadata"].get("ownerReferences") or ()
    boss = next((o for o in owners if o.get("controller")), None)
    text = f"{boss.get('kind', '').lower()}/{boss.get('name', '')}" if boss else "<none>"
    return [name(obj), text, obj.get("revision") or 0, age(obj, now)]


JOB = Printer(columns("Name", "Status", "Completions", "Duration", "Age", wide=_POD_COLUMNS), _job)
CRON_JOB = Printer(
    (
        *columns("Name", "Schedule", "Timezone"),
        Column("Suspend", "boolean"),
        *columns("Active", "Last Schedule", "Age", wide=_POD_COLUMNS, numbers=("Active",)),
    ),
    _cron_job,
)
DEPLOYMENT = Printer(
    columns(
        "Name",
        "Ready",
        "Up-to-date",
        "Available",
        "Age",
        wide=_POD_COLUMNS,
    ),
    _deployment,
)
REPLICAS = Printer(
    columns(
        "Name",
        "Desired",
        "Current",
        "Ready",
        "Age",
        wide=_POD_COLUMNS,
        numbers=("Desired", "Current", "Ready"),
    ),
    _replicas,
)
STATEFUL_SET = Printer(
    columns("Name", "Ready", "Age", wide=("Containers", "Images")), _stateful_set
)
DAEMON_SET = Printer(
    columns(
        "Name",
        "Desired",
        "Current",
        "Ready",
        "Up-to-date",
        "Available",
        "Node Selector",
        "Age",
        wide=_POD_COLUMNS,
        numbers=("Desired", "Current", "Ready", "Up-to-date", "Available"),
    ),
    _daemon_set,
)
CONTROLLER_REVISION = Printer(columns("Name", "Controller", "Revision", "Age"), _revision)

"""Gangs that go as a whole by their kind's own switch: suspended, and resumed a while later.

An operator that is told to suspend ends all pods of a workload together and counts no failure; a
pod deleted behind its back would be replaced at once or count against the job's retries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object, Resource

_SPEC = ("spec", "suspend")
_RUN_POLICY = ("spec", "runPolicy", "suspend")

#: Kinds that hold one gang's worth of work and can be suspended. Cron kinds are not meant: their
#: switch stops what is still to come, not what runs.
SWITCH: dict[Resource, tuple[str, ...]] = {
    kinds.RAY_JOB: _SPEC,
    kinds.RAY_CLUSTER: _SPEC,
    kinds.JOB: _SPEC,
    kinds.JOB_SET: _SPEC,
    kinds.TRAIN_JOB: _SPEC,
    kinds.PYTORCH_JOB: _RUN_POLICY,
    kinds.TF_JOB: _RUN_POLICY,
    kinds.MPI_JOB: _RUN_POLICY,
    kinds.XGBOOST_JOB: _RUN_POLICY,
    kinds.PADDLE_JOB: _RUN_POLICY,
    kinds.JAX_JOB: _RUN_POLICY,
}
_ENDED = ("Complete", "Completed", "Failed", "Succeeded", "FailureTarget", "SuccessCriteriaMet")


def suspended(resource: Resource, workload: Object) -> bool:
    value: Any = workload
    for step in SWITCH[resource]:
        value = (value or {}).get(step)
    return value is True


def switch(resource: Resource, on: bool) -> Object:
    """A merge patch."""
    patch: Any = on
    for step in reversed(SWITCH[resource]):
        patch = {step: patch}
    return patch


def can_suspend(resource: Resource, workload: Object) -> bool:
    """Whether the kind's operator obeys the switch in this workload's present state."""
    if resource not in SWITCH or suspended(resource, workload) or _ended(workload):
        return False
    return _RULES.get(resource, _always)(workload)


def _always(workload: Object) -> bool:
    return True


def _ray_job(job: Object) -> bool:
    """KubeRay refuses to suspend a job that keeps its cluster or runs in somebody else's."""
    spec = job.get("spec") or {}
    return bool(spec.get("shutdownAfterJobFinishes")) and not spec.get("clusterSelector")


def _own_master(workload: Object) -> bool:
    """What another object owns is switched there or not at all."""
    return not any(r.get("controller") for r in workload["metadata"].get("ownerReferences") or ())


_RULES: dict[Resource, Callable[[Object], bool]] = {
    kinds.RAY_JOB: _ray_job,
    kinds.RAY_CLUSTER: _own_master,
    kinds.JOB: _own_master,
    kinds.JOB_SET: _own_master,
}


def _ended(workload: Object) -> bool:
    status = workload.get("status") or {}
    return any(
        c.get("type") in _ENDED and c.get("status") == "True"
        for c in status.get("conditions") or ()
    )

"""Where each kind keeps its own "suspend" switch: one table for users and for the scheduler."""

from __future__ import annotations

from typing import Any

from kai_ray.api import labels as names

from . import resources as R
from .port import Object, Resource

_SPEC = ("spec", "suspend")
_RUN_POLICY = ("spec", "runPolicy", "suspend")

#: Kinds that stop at somebody's word: the path of a boolean that their own operator obeys.
SUSPEND: dict[Resource, tuple[str, ...]] = {
    R.RAY_JOB: _SPEC,
    R.RAY_CLUSTER: _SPEC,
    R.RAY_SERVICE: _SPEC,
    R.RAY_CRON_JOB: _SPEC,
    R.PYTORCH_JOB: _RUN_POLICY,
    R.TF_JOB: _RUN_POLICY,
    R.MPI_JOB: _RUN_POLICY,
    R.XGBOOST_JOB: _RUN_POLICY,
    R.PADDLE_JOB: _RUN_POLICY,
    R.JAX_JOB: _RUN_POLICY,
    R.TRAIN_JOB: _SPEC,
    R.JOB_SET: _SPEC,
    R.JOB: _SPEC,
    R.CRON_JOB: _SPEC,
}


def is_suspended(resource: Resource, obj: Object) -> bool:
    notes = obj["metadata"].get("annotations")
    if isinstance(notes, dict) and notes.get(names.SUSPENDED) == "true":
        return True
    path = SUSPEND.get(resource)
    if path is None:
        return False
    value: Any = obj
    for step in path:
        value = (value or {}).get(step)
    return value is True


def suspend_patch(resource: Resource, on: bool) -> Object:
    """The merge patch that suspends or resumes an object of that kind.

    A kind without a switch is suspended by annotation: the scheduler evicts its pods, and those
    that are made again wait until it is resumed.
    """
    if resource not in SUSPEND:
        return annotation_patch(on)
    patch: Any = on
    for step in reversed(SUSPEND[resource]):
        patch = {step: patch}
    return patch


def annotation_patch(on: bool) -> Object:
    """The same by annotation, for kinds and versions without a switch."""
    return {"metadata": {"annotations": {names.SUSPENDED: "true" if on else None}}}

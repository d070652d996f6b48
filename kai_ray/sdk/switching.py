"""Suspending and resuming a workload by the means of its own kind."""

from __future__ import annotations

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object, Port
from kai_ray.cluster.suspension import annotation_patch, is_suspended, suspend_patch
from kai_ray.sdk.errors import CannotSuspend
from kai_ray.sdk.finding import Found


def switch(port: Port, found: Found, on: bool, dry_run: str = "none") -> bool:
    """Suspends (`on`) or resumes a workload; False if it is so already. Raises CannotSuspend."""
    if on and found.resource == R.POD and found.object["spec"].get("nodeName"):
        raise CannotSuspend(
            f"{found} cannot be suspended",
            why="nobody makes a bare pod again once it has left its node",
            command=f"kai job delete {found.name}",
            python="delete() it",
        )
    server_only = dry_run == "server"
    if is_suspended(found.resource, found.object) is on:
        if on and dry_run != "client":
            _stay_suspended(port, found, server_only)
        return False
    if on:
        _refuse_what_its_operator_refuses(found)
    if dry_run != "client":
        _write(port, found, on, server_only)
    return True


def _stay_suspended(port: Port, found: Found, dry_run: bool) -> None:
    """What the scheduler suspended for a moment now stays so, by its user's word."""
    if L.RESUME_AT in (found.object["metadata"].get("annotations") or {}):
        patch = {"metadata": {"annotations": {L.RESUME_AT: None}}}
        port.patch(found.resource, found.name, patch, found.namespace, dry_run=dry_run)


def _write(port: Port, found: Found, on: bool, dry_run: bool) -> None:
    """By the kind's own switch; by annotation where it has none or this version ignores it."""
    patch = suspend_patch(found.resource, on)
    marked = L.SUSPENDED in (found.object["metadata"].get("annotations") or {})
    if not on and marked:
        patch = {**patch, **annotation_patch(False)}
    notes = found.object["metadata"].get("annotations") or {}
    if not on and L.SUSPENDED_BY in notes:
        told = {L.SUSPENDED_BY: None, **((patch.get("metadata") or {}).get("annotations") or {})}
        patch = {**patch, "metadata": {"annotations": told}}
    where = (found.resource, found.name)
    answer = port.patch(*where, patch, found.namespace, dry_run=dry_run)
    if on and not is_suspended(found.resource, answer):
        port.patch(*where, annotation_patch(True), found.namespace, dry_run=dry_run)


def _refuse_what_its_operator_refuses(found: Found) -> None:
    """KubeRay fails a RayJob for good when it is suspended without these."""
    if found.resource != R.RAY_JOB:
        return
    spec: Object = found.object.get("spec") or {}
    if spec.get("clusterSelector"):
        raise CannotSuspend(
            f"{found} cannot be suspended",
            why="it runs on an existing cluster (spec.clusterSelector)",
            command="suspend that RayCluster, or delete the job",
        )
    if not spec.get("shutdownAfterJobFinishes"):
        patch = '{"spec":{"shutdownAfterJobFinishes":true}}'
        raise CannotSuspend(
            f"{found} cannot be suspended",
            why="KubeRay suspends a RayJob only with spec.shutdownAfterJobFinishes: true",
            command=f"kubectl patch -n {found.namespace} {found} --type merge -p '{patch}'",
        )

"""CronJob: a group for each run, that of the run's Job; labels of the CronJob count too."""

from __future__ import annotations

from dataclasses import replace

from kai_ray.podgrouper.groups import Group
from kai_ray.podgrouper.values import (
    GroupError,
    Object,
    mapping,
    metadata,
    name_of,
    namespace_of,
    owner_references,
)
from kai_ray.podgrouper.workload import UNKNOWN_NAME, UNKNOWN_UID, Rule, Workload

from .job import job_groups


def run_of(cron: Object) -> Object:
    """The Job of a run to come."""
    template = mapping(cron, "spec.jobTemplate")
    meta = {k: v for k, v in metadata(template).items() if k in ("labels", "annotations")}
    meta |= {
        "name": f"{name_of(cron)}-{UNKNOWN_NAME}",
        "namespace": namespace_of(cron),
        "uid": UNKNOWN_UID,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": template.get("spec"),
    }


def cron_job_groups(w: Workload) -> list[Group]:
    """Only for a pod or when planning: else the group belongs to the run's Job."""
    if w.planning:
        run = run_of(w.subject)
        return job_groups(replace(w, subject=run, owners=(run, w.subject)))
    if w.pod is None:
        return []
    run = _run_in_chain(w)
    return job_groups(replace(w, subject=run, owners=(run, w.subject)))


def _run_in_chain(w: Workload) -> Object:
    for owner in w.owners:
        if owner.get("kind") == "Job":
            return owner
    for reference in owner_references(w.pod):
        if isinstance(reference, dict) and reference.get("kind") == "Job":
            found = w.reader.get("batch/v1", "Job", str(reference.get("name")), w.namespace)
            if found is not None:
                return found
    raise GroupError(
        "metadata.ownerReferences", "no Job of this CronJob owns the pod", "wait for the Job"
    )


RULE = Rule(cron_job_groups, per_pod=True)

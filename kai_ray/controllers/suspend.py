"""Which gangs go as a whole by their kind's own switch, instead of pod by pod.

An operator that is told to suspend ends all pods of a workload together and counts no failure; a
pod deleted behind its back would be replaced at once or count against the job's retries, and the
head of a Ray cluster takes the cluster's state with it.
"""

from __future__ import annotations

from collections.abc import Callable

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object, Resource
from kai_ray.cluster.suspension import SUSPEND, is_suspended

#: Cron kinds are not meant: their switch stops what is still to come, not what runs.
GANG_KINDS: tuple[Resource, ...] = tuple(
    resource for resource in SUSPEND if resource not in (kinds.CRON_JOB, kinds.RAY_CRON_JOB)
)
_RAY_JOB_ENDED = ("Complete", "Failed", "ValidationFailed")
_ENDED = ("Complete", "Completed", "Failed", "Succeeded", "FailureTarget", "SuccessCriteriaMet")


def can_suspend(resource: Resource, workload: Object) -> bool:
    """Whether the kind's operator obeys the switch in this workload's present state."""
    if resource not in GANG_KINDS or is_suspended(resource, workload) or has_ended(workload):
        return False
    return _RULES.get(resource, _always)(workload)


def _always(workload: Object) -> bool:
    return True


def _ray_job(job: Object) -> bool:
    """KubeRay refuses to suspend a job that keeps its cluster or runs in somebody else's."""
    spec = job.get("spec") or {}
    return bool(spec.get("shutdownAfterJobFinishes")) and not spec.get("clusterSelector")


def lost_if_evicted(job: Object) -> bool:
    """Whether a RayJob that has not ended can only be evicted by ending its attempt."""
    return not _ray_job(job) and not has_ended(job) and not job["metadata"].get("deletionTimestamp")


def selected_cluster(job: Object) -> str:
    """The RayCluster of somebody else that a RayJob runs in; "" where it makes its own."""
    selector = (job.get("spec") or {}).get("clusterSelector") or {}
    return selector.get("ray.io/cluster") or ""


def _own_master(workload: Object) -> bool:
    """What another object owns is switched there or not at all."""
    return not any(r.get("controller") for r in workload["metadata"].get("ownerReferences") or ())


_RULES: dict[Resource, Callable[[Object], bool]] = {
    kinds.RAY_JOB: _ray_job,
    kinds.RAY_CLUSTER: _own_master,
    kinds.JOB: _own_master,
    kinds.JOB_SET: _own_master,
}


def has_ended(workload: Object) -> bool:
    """Whether nothing of a workload will run again."""
    status = workload.get("status") or {}
    if workload.get("kind") == kinds.RAY_JOB.kind:
        return status.get("jobDeploymentStatus") in _RAY_JOB_ENDED
    return any(
        c.get("type") in _ENDED and c.get("status") == "True"
        for c in status.get("conditions") or ()
    )

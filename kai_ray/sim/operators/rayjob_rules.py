"""What KubeRay refuses in a RayJob, by field."""

from __future__ import annotations

from kai_ray.cluster.port import Object

from .rayjob_cluster import mode_of

SELECTOR = "ray.io/cluster"


def problem_of(job: Object) -> str:
    spec = job["spec"]
    selected = spec.get("clusterSelector")
    if not selected and not spec.get("rayClusterSpec"):
        return "spec.rayClusterSpec: missing: describe a cluster or name one in clusterSelector"
    if selected and not selected.get(SELECTOR):
        return f"spec.clusterSelector: name the cluster under the key {SELECTOR}"
    if spec.get("suspend") and not spec.get("shutdownAfterJobFinishes"):
        return "spec.suspend: set shutdownAfterJobFinishes to true to suspend a RayJob"
    if spec.get("suspend") and selected:
        return "spec.suspend: a RayJob that uses clusterSelector cannot be suspended"
    if (spec.get("backoffLimit") or 0) < 0:
        return "spec.backoffLimit: negative: use 0 or more"
    if mode_of(job) == "SidecarMode" and selected:
        return "spec.submissionMode: SidecarMode needs a cluster of its own, not clusterSelector"
    return ""


def refused(job: Object, problem: str) -> Object:
    return {
        **(job.get("status") or {}),
        "jobDeploymentStatus": "ValidationFailed",
        "reason": "ValidationFailed",
        "message": problem,
    }

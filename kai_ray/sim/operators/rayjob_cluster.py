"""The RayCluster that a RayJob makes, and what is deleted when, after the job has ended."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

from . import ray_names as names
from .raycluster import suspend_workers
from .rayjob_submitter import sidecar
from .world import World, own_copy, owner_ref

_POLICIES = ("DeleteNone", "DeleteWorkers", "DeleteCluster", "DeleteSelf")


def mode_of(job: Object) -> str:
    return job["spec"].get("submissionMode") or "K8sJobMode"


def new_cluster(job: Object, name: str) -> Object:
    meta, mode = job["metadata"], mode_of(job)
    labels = {
        **(meta.get("labels") or {}),
        names.ORIGIN_NAME: meta["name"],
        names.ORIGIN_KIND: "RayJob",
        names.SUBMISSION_MODE: mode,
    }
    annotations = {
        k: v
        for k, v in (meta.get("annotations") or {}).items()
        if k != "kubectl.kubernetes.io/last-applied-configuration"
    }
    spec = own_copy(job["spec"]["rayClusterSpec"])
    if mode == "SidecarMode":
        annotations[names.NO_HEAD_RESTART] = "true"
    new_meta: Object = {
        "name": name,
        "namespace": meta["namespace"],
        "labels": labels,
        "ownerReferences": [owner_ref(R.RAY_JOB, job)],
    }
    if annotations:
        new_meta["annotations"] = annotations
    cluster: Object = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": new_meta,
        "spec": spec,
    }
    if mode == "SidecarMode":
        beside = sidecar(job, cluster)
        pod_spec = spec["headGroupSpec"]["template"]["spec"]
        pod_spec["containers"].append(beside)
        pod_spec["restartPolicy"] = "Never"
    return cluster


class Cleanup:
    """Deletes clusters and submitters, at once or by the rules of a finished job."""

    def __init__(self, world: World) -> None:
        self._world = world

    def after_end(self, job: Object, status: Object) -> float | None:
        spec = job["spec"]
        if spec.get("clusterSelector"):
            return None
        strategy = spec.get("deletionStrategy")
        if strategy is not None:
            return self._deletion_rules(job, status, strategy)
        if not spec.get("shutdownAfterJobFinishes"):
            return None
        left = (spec.get("ttlSecondsAfterFinished") or 0) - self._world.age_s(status.get("endTime"))
        if left > 0:
            return left
        self.delete_cluster(job, status)
        return None

    def _deletion_rules(self, job: Object, status: Object, strategy: Object) -> float | None:
        age = self._world.age_s(status.get("endTime"))
        rules: list[tuple[float, str]] = []
        for rule in strategy.get("deletionRules") or ():
            if _matches(rule.get("condition") or {}, status):
                ttl = (rule.get("condition") or {}).get("ttlSeconds") or 0
                rules.append((ttl, rule["policy"]))
        legacy = strategy.get(
            "onSuccess" if status.get("jobStatus") == "SUCCEEDED" else "onFailure"
        )
        if not strategy.get("deletionRules") and legacy:
            rules.append((job["spec"].get("ttlSecondsAfterFinished") or 0, legacy["policy"]))
        due = [policy for ttl, policy in rules if ttl <= age]
        if due:
            self._apply(job, status, max(due, key=_POLICIES.index))
        later = [ttl - age for ttl, _ in rules if ttl > age]
        return min(later) if later else None

    def _apply(self, job: Object, status: Object, policy: str) -> None:
        if policy == "DeleteCluster":
            self.delete_cluster(job, status)
        elif policy == "DeleteSelf":
            self._world.delete(R.RAY_JOB, job)
        elif policy == "DeleteWorkers":
            name, namespace = status.get("rayClusterName", ""), job["metadata"]["namespace"]
            cluster = self._world.get(R.RAY_CLUSTER, namespace, name)
            groups = (cluster or {"spec": {}})["spec"].get("workerGroupSpecs") or ()
            if cluster is not None and not all(g.get("suspend") for g in groups):
                suspend_workers(self._world, cluster)

    def delete_cluster(self, job: Object, status: Object) -> bool:
        """True once the cluster and its pods are gone. Selected clusters are not ours to delete."""
        if job["spec"].get("clusterSelector"):
            return True
        namespace, name = job["metadata"]["namespace"], status.get("rayClusterName", "")
        cluster = self._world.get(R.RAY_CLUSTER, namespace, name)
        if cluster is None:
            return True
        self._world.delete(R.RAY_CLUSTER, cluster)
        return False

    def delete_submitter(self, job: Object) -> bool:
        meta = job["metadata"]
        submitter = self._world.get(R.JOB, meta["namespace"], meta["name"])
        if submitter is None or mode_of(job) != "K8sJobMode":
            return True
        self._world.delete(R.JOB, submitter)
        return False


def _matches(rule: Object, status: Object) -> bool:
    if rule.get("jobStatus"):
        return rule["jobStatus"] == status.get("jobStatus")
    return rule.get("jobDeploymentStatus") == status.get("jobDeploymentStatus")

"""What becomes of a sample workload in the end, and how to tell."""

from __future__ import annotations

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import NotFound, Object
from kai_ray.sim import pod_facts
from kai_ray.sim.embedded import EmbeddedCluster

SERVICES = {"RayCluster", "RayService", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"}
RUNS_TO_AN_END = {
    "Job",
    "RayJob",
    "PyTorchJob",
    "TFJob",
    "MPIJob",
    "XGBoostJob",
    "PaddleJob",
    "JAXJob",
    "TrainJob",
    "JobSet",
    "RayCronJob",
    "CronJob",
    "Pod",
}


def is_workload(obj: Object) -> bool:
    return obj["kind"] in SERVICES or obj["kind"] in RUNS_TO_AN_END


def serves(obj: Object) -> bool:
    if obj["kind"] == "Pod":
        return obj["spec"].get("restartPolicy", "Always") == "Always"
    if obj["kind"] == "RayJob":
        return obj["spec"].get("submissionMode") == "InteractiveMode"
    return obj["kind"] in SERVICES


def fresh(cluster: EmbeddedCluster, obj: Object) -> Object | None:
    resource = R.BY_KIND[obj["apiVersion"], obj["kind"]]
    meta = obj["metadata"]
    try:
        return cluster.client.get(resource, meta["name"], meta.get("namespace", ""))
    except NotFound:
        return None


def is_ready(cluster: EmbeddedCluster, obj: Object) -> bool:
    found = fresh(cluster, obj)
    status = (found or {}).get("status") or {}
    kind = obj["kind"]
    if kind == "Pod":
        return found is not None and pod_facts.is_ready(found)
    if kind == "RayCluster":
        return status.get("state") == "ready"
    if kind == "RayService":
        return status.get("serviceStatus") == "Running"
    if kind == "RayJob":
        return status.get("jobDeploymentStatus") in ("Waiting", "Running")
    return status.get("readyReplicas", 0) >= (found or {"spec": {}})["spec"].get("replicas", 1)


def has_ended(cluster: EmbeddedCluster, obj: Object) -> bool:
    found = fresh(cluster, obj)
    if found is None:
        return obj["spec"].get("ttlSecondsAfterFinished") is not None
    status = found.get("status") or {}
    kind = obj["kind"]
    if kind == "Pod":
        return status["phase"] == "Succeeded"
    if kind == "RayJob":
        return status.get("jobDeploymentStatus") == "Complete"
    if kind in ("RayCronJob", "CronJob"):
        return _children_ended(cluster, found)
    done = {"Complete", "Completed", "Succeeded"}
    return any(c["type"] in done and c["status"] == "True" for c in status.get("conditions") or ())


def _children_ended(cluster: EmbeddedCluster, owner: Object) -> bool:
    resource = R.RAY_JOB if owner["kind"] == "RayCronJob" else R.JOB
    uid = owner["metadata"]["uid"]
    mine = [
        o
        for o in cluster.client.list(resource).items
        if any(r["uid"] == uid for r in o["metadata"].get("ownerReferences") or ())
    ]
    return any(has_ended(cluster, o) for o in mine)


def waiting(cluster: EmbeddedCluster) -> list[str]:
    """Pods without a node, with what their PodGroup says."""
    said = {
        g["metadata"]["name"]: "; ".join(
            c.get("message", "")
            for c in (g.get("status") or {}).get("conditions") or ()
            if c["type"] == "Scheduled" and c["status"] != "True"
        )
        for g in cluster.client.list(R.POD_GROUP).items
    }
    out: list[str] = []
    for pod in cluster.client.list(R.POD).items:
        if not pod["spec"].get("nodeName"):
            group = (pod["metadata"].get("annotations") or {}).get("pod-group-name", "")
            scheduled = pod_facts.pod_condition(pod, "PodScheduled") or {}
            why = scheduled.get("message") or said.get(group, "")
            out.append(f"{pod['metadata']['name']}: {why}")
    return out

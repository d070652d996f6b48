"""What operators add to pods: containers, requests, defaults (KubeRay 1.6, training-operator 1.9).

One place, so that `kai plan`, the group's reservation and the stand-in operators agree on the size
of a pod.
"""

from __future__ import annotations

from typing import Any

#: KubeRay: the sidecar of a head whose cluster has `enableInTreeAutoscaling`.
RAY_AUTOSCALER_CONTAINER = "autoscaler"
RAY_AUTOSCALER_RESOURCES: dict[str, dict[str, str]] = {
    "limits": {"cpu": "500m", "memory": "512Mi"},
    "requests": {"cpu": "500m", "memory": "512Mi"},
}

#: KubeRay: the init container of every worker that waits for the head's GCS.
RAY_WAIT_GCS_CONTAINER = "wait-gcs-ready"
RAY_WAIT_GCS_RESOURCES: dict[str, dict[str, str]] = {
    "limits": {"cpu": "200m", "memory": "256Mi"},
    "requests": {"cpu": "200m", "memory": "256Mi"},
}

#: KubeRay: the submitter of a RayJob, its own pod (K8sJobMode) or in the head (SidecarMode).
RAY_SUBMITTER_CONTAINER = "ray-job-submitter"
RAY_SUBMITTER_RESOURCES: dict[str, dict[str, str]] = {
    "limits": {"cpu": "1", "memory": "1Gi"},
    "requests": {"cpu": "500m", "memory": "200Mi"},
}

#: KubeRay: the Job that empties Redis when a cluster with GCS fault tolerance is deleted.
RAY_REDIS_CLEANUP_CONTAINER = "redis-cleanup"
RAY_REDIS_CLEANUP_RESOURCES: dict[str, dict[str, str]] = {
    "limits": {"cpu": "200m", "memory": "256Mi"},
    "requests": {"cpu": "200m", "memory": "256Mi"},
}

#: training-operator: the init container of PyTorch workers that waits for the master's name.
PYTORCH_INIT_CONTAINER = "init-pytorch"
PYTORCH_INIT_RESOURCES: dict[str, dict[str, str]] = {
    "limits": {"cpu": "100m", "memory": "20Mi"},
    "requests": {"cpu": "50m", "memory": "10Mi"},
}

#: training-operator (MPIJob v1): the init container that brings kubectl to the launcher.
MPI_DELIVERY_CONTAINER = "kubectl-delivery"
MPI_DELIVERY_RESOURCES: dict[str, dict[str, str]] = {
    "limits": {"cpu": "100m", "ephemeral-storage": "5Gi", "memory": "512Mi"},
    "requests": {"cpu": "100m", "ephemeral-storage": "5Gi", "memory": "512Mi"},
}

#: KubeRay's CRD defaults for a worker group.
RAY_MAX_REPLICAS = 2**31 - 1
RAY_HEAD_GROUP = "headgroup"


def container(name: str, resources: dict[str, dict[str, str]]) -> dict[str, Any]:
    """An injected container with what matters to scheduling: its name and its resources."""
    return {"name": name, "resources": {kind: dict(amounts) for kind, amounts in resources.items()}}

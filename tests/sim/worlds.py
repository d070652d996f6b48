"""Small clusters and manifests that several tests of the simulation start from."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster import resources as R
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.port import NotFound, Object, Resource
from kai_ray.sim.cluster_file import ClusterConfig
from kai_ray.sim.embedded import EmbeddedCluster
from tests.sim.first_fit import FirstFit


def bare_cluster(
    nodes: int = 2, gpus: int = 8, state_dir: Any = None, **config: Any
) -> EmbeddedCluster:
    """Nodes, operators and a first-fit scheduler, in virtual time. `config`: fields of the pool
    and, under their own names, of the cluster file."""
    cluster = {k: config.pop(k) for k in ("kubelet", "seed", "runTimeFactor") if k in config}
    raw = {"nodePools": [{"name": "n", "count": nodes, "gpus": gpus, **config}], **cluster}
    return EmbeddedCluster(
        ClusterConfig.of(raw), VirtualClock(), state_dir, scheduling=False, extra=[FirstFit()]
    )


def pod(name: str, *, gpus: int = 0, restart: str = "Never", **annotations: str) -> Object:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {
                f"kai.scheduler/sim-{k.replace('_', '-')}": v for k, v in annotations.items()
            },
        },
        "spec": {
            "restartPolicy": restart,
            "containers": [{"name": "c", "image": "x", "resources": {"limits": limits}}],
        },
    }


def get(
    cluster: EmbeddedCluster, resource: Resource, name: str, namespace: str = "default"
) -> Object:
    return cluster.client.get(resource, name, namespace if resource.namespaced else "")


def exists(
    cluster: EmbeddedCluster, resource: Resource, name: str, namespace: str = "default"
) -> bool:
    try:
        get(cluster, resource, name, namespace)
    except NotFound:
        return False
    return True


def phase(cluster: EmbeddedCluster, name: str, namespace: str = "default") -> str:
    return get(cluster, R.POD, name, namespace)["status"]["phase"]


def job(name: str, **spec: Any) -> Object:
    template = spec.pop("template", {"restartPolicy": "Never"})
    annotations = spec.pop("annotations", {})
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {
            "template": {"spec": {"containers": [{"name": "c", "image": "x"}], **template}},
            **spec,
        },
    }


def status_condition(obj: Object, kind: str) -> str:
    """The status of a condition, or ""."""
    for found in (obj.get("status") or {}).get("conditions") or ():
        if found["type"] == kind:
            return found["status"]
    return ""


HEAD = {"name": "ray-head", "image": "rayproject/ray:2.49.0"}
WORKER = {"name": "ray-worker", "image": "rayproject/ray:2.49.0"}


def cluster_spec(replicas: int = 2, **fields: Any) -> Object:
    group = {
        "groupName": "w",
        "replicas": replicas,
        "minReplicas": 0,
        "maxReplicas": 10,
        "rayStartParams": {},
        "template": {"spec": {"containers": [WORKER]}},
        **fields.pop("group", {}),
    }
    return {
        "rayVersion": "2.49.0",
        "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [HEAD]}}},
        "workerGroupSpecs": [group],
        **fields,
    }


def job_spec(mode: str = "K8sJobMode", **fields: Any) -> Object:
    return {
        "entrypoint": "python run.py",
        "submissionMode": mode,
        "rayClusterSpec": cluster_spec(),
        **fields,
    }

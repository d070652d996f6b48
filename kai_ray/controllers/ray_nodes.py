"""Which pods are Ray workers, and where the head of their cluster listens."""

from __future__ import annotations

from collections.abc import Iterable

from kai_ray.api import labels as names
from kai_ray.cluster.port import Key, Object
from kai_ray.controllers.drainer import RayWorker

#: Names of the head's port that KubeRay and its users know; the number is Ray's default.
_PORT_NAMES = ("gcs-server", "gcs")
_PORT = 6379


def is_worker(pod: Object) -> bool:
    return _labels(pod).get(names.RAY_NODE_TYPE) == "worker"


def cluster_of(pod: Object) -> str:
    return _labels(pod).get(names.RAY_CLUSTER, "")


def head_texts(pod: Object) -> tuple[str, ...]:
    """Index of head pods: "namespace/RayCluster"."""
    labels = _labels(pod)
    if labels.get(names.RAY_NODE_TYPE) != "head":
        return ()
    return (f"{pod['metadata'].get('namespace') or ''}/{labels.get(names.RAY_CLUSTER, '')}",)


def gcs_address(heads: Iterable[Object], cluster: Object | None) -> str:
    """host:port of the first head that runs; "" where none does."""
    for pod in heads:
        status = pod.get("status") or {}
        if pod["metadata"].get("deletionTimestamp") or status.get("phase") != "Running":
            continue
        ip = status.get("podIP")
        if ip:
            host = f"[{ip}]" if ":" in ip else ip
            return f"{host}:{_port(pod, cluster)}"
    return ""


def ray_worker(pod: Object) -> RayWorker:
    meta = pod["metadata"]
    ip = (pod.get("status") or {}).get("podIP") or ""
    return RayWorker(meta.get("uid") or "", meta["name"], ip)


def by_cluster(pods: Iterable[Object]) -> dict[Key, list[Object]]:
    """Ray workers among `pods` by their RayCluster."""
    found: dict[Key, list[Object]] = {}
    for pod in pods:
        if is_worker(pod) and cluster_of(pod):
            key = Key(pod["metadata"].get("namespace") or "", cluster_of(pod))
            found.setdefault(key, []).append(pod)
    return found


def _port(head: Object, cluster: Object | None) -> int:
    group = ((cluster or {}).get("spec") or {}).get("headGroupSpec") or {}
    stated = str((group.get("rayStartParams") or {}).get("port") or "")
    if stated.isdigit():
        return int(stated)
    ports = [p for c in head["spec"].get("containers") or () for p in c.get("ports") or ()]
    return next((int(p["containerPort"]) for p in ports if p.get("name") in _PORT_NAMES), _PORT)


def _labels(pod: Object) -> dict[str, str]:
    return pod["metadata"].get("labels") or {}

"""What the views need to know about a pod: where it stands, what it asks for."""

from __future__ import annotations

from kai_ray.api import labels
from kai_ray.cluster.port import Object
from kai_ray.gpu.held import gpus, shares

__all__ = [
    "finished",
    "gang_name",
    "gpus",
    "node",
    "phase",
    "ready",
    "running",
    "shares",
]


def phase(pod: Object) -> str:
    return (pod.get("status") or {}).get("phase") or "Pending"


def node(pod: Object) -> str:
    return (pod.get("spec") or {}).get("nodeName") or ""


def finished(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def running(pod: Object) -> bool:
    return phase(pod) == "Running" and not pod["metadata"].get("deletionTimestamp")


def ready(pod: Object) -> bool:
    if not running(pod):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def gang_name(pod: Object) -> str:
    """The PodGroup that the pod says it belongs to; empty if it says none."""
    return (pod["metadata"].get("annotations") or {}).get(labels.POD_GROUP) or ""

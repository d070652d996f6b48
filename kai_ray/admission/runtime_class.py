"""Gives pods that share GPUs the runtime that hands them their devices (KAI 0.17, admission).

A device plugin does not see such pods: their devices come by NVIDIA_VISIBLE_DEVICES, which only
NVIDIA's runtime reads. A class that the cluster does not have is left out: the pod would be refused
for it, and there the runtime is the default, or nothing is real.
"""

from __future__ import annotations

from kai_ray.cluster.port import ApiError, Object, Port, Resource
from kai_ray.gpu import environment

RUNTIME_CLASS = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
DEFAULT = "nvidia"


def add(pod: Object, name: str, reader: Port) -> None:
    """Names the class, unless the pod names one itself. `name` "": none."""
    spec = pod["spec"]
    if not name or spec.get("runtimeClassName") or not environment.shares(pod):
        return
    try:
        reader.get(RUNTIME_CLASS, name)
    except ApiError:
        return
    spec["runtimeClassName"] = name

"""What keeps pods on a shared card apart, where something does, and the limits it reads.

Without MPS or HAMi-core a part of a card is a promise between pods: the books are right, nothing
stops a process from taking more. That is said on the pod rather than hidden.
"""

from __future__ import annotations

from typing import Literal

from kai_ray.api import labels as names
from kai_ray.cluster.port import Object

Isolation = Literal["mps", "hami", "none"]

HAMI_MEMORY = "CUDA_DEVICE_MEMORY_LIMIT"
MPS_MEMORY = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
MPS_THREADS = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
#: Environment variables that a container is given where its node isolates.
LIMITS = (HAMI_MEMORY, MPS_MEMORY, MPS_THREADS)


def of_node(node: Object) -> Isolation:
    """What isolates on a node: its own word first, else what NVIDIA's or HAMi's plugin says."""
    labels = node["metadata"].get("labels") or {}
    stated = str(labels.get(names.GPU_ISOLATION) or "").lower()
    if stated in ("mps", "hami", "none"):
        return stated
    if labels.get(names.MPS_CAPABLE) == "true" or labels.get(names.SHARING_STRATEGY) == "mps":
        return "mps"
    if names.HAMI_REGISTERED in (node["metadata"].get("annotations") or {}):
        return "hami"
    return "none"


def limits(isolation: Isolation, mib: int, portion: float, devices: int) -> dict[str, str]:
    """Variables by name. `mib` and `portion` are of each of `devices` cards; mib 0 = not known.

    MPS numbers the devices that a container sees from 0. HAMi-core takes one limit for all.
    """
    if isolation == "hami":
        return {HAMI_MEMORY: f"{mib}m"} if mib else {}
    if isolation == "mps":
        threads = {MPS_THREADS: str(max(1, min(100, round(portion * 100))))}
        memory = ",".join(f"{i}={mib}M" for i in range(devices))
        return {**({MPS_MEMORY: memory} if mib else {}), **threads}
    return {}

"""Amounts of the arrays as Kubernetes quantities."""

from __future__ import annotations

from collections.abc import Sequence

from kai_ray.api.labels import GPU_RESOURCES, NVIDIA_GPU
from kai_ray.encode.dra.offer import DEVICES
from kai_ray.scheduler.snapshot import CPU, GPU, MEMORY, PODS


def resource_list(values: Sequence[float], resources: Sequence[str]) -> dict[str, str]:
    """Zero amounts and pod slots left out; GPUs of all vendors under nvidia.com/gpu.

    Claimed devices stand under the name of their class (KAI 0.17).
    """
    found: dict[str, str] = {}
    for row, value in enumerate(values):
        if value == 0 or row == PODS or (row > PODS and resources[row] in GPU_RESOURCES):
            continue
        if row == CPU:
            found["cpu"] = milli(value)
        elif row == MEMORY:
            found["memory"] = f"{value:.0f}"
        elif row == GPU:
            found[NVIDIA_GPU] = f"{value:g}"
        else:
            name = resources[row].removesuffix(DEVICES)
            if " " not in name:  # rows that stand for several classes are nobody's resource
                found[name] = f"{value:.0f}"
    return found


def milli(value: float) -> str:
    """Millicores: "2" or "1500m"."""
    return f"{value / 1000:.0f}" if value % 1000 == 0 else f"{value:.0f}m"

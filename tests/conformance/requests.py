"""What a recorded task asks for, and how many GPUs a recorded node offers."""

from __future__ import annotations

import math
import re
from typing import Any

_MIG_SLICES = re.compile(r"nvidia\.com/mig-(\d+)g\.\d+gb")


def queue_request(
    task: dict[str, Any], config: dict[str, Any], node: dict[str, Any] | None = None
) -> tuple[float, float, float]:
    """What is charged to the task's queue: millicores, bytes, GPUs.

    A GPU-memory request counts by the memory of `node`'s devices once the task is there, else by
    the smallest device of the cluster.
    """
    request = task["request"]
    return (
        float(request["cpu_milli"]),
        float(request["memory_bytes"]),
        _gpus(task, config, node) + float(sum(request["dra_gpus"].values())),
    )


def _gpus(task: dict[str, Any], config: dict[str, Any], node: dict[str, Any] | None) -> float:
    request = task["request"]
    devices = request["gpu_devices"] or 1
    match request["gpu_kind"]:
        case "whole":
            return float(request["gpus"])
        case "fraction":
            return round(request["gpu_fraction"] * 100) * devices / 100
        case "gpu_memory":
            memory = request["gpu_memory_mib"]
            if node is not None:
                return devices * math.ceil(100 * memory / node["gpu_memory_mib"]) / 100
            smallest = config["min_node_gpu_memory_mib"]
            return devices * memory / smallest if smallest else 0.0
        case "mig":
            return _slices(request["mig"])
        case _:
            return 0.0


def gpu_count(node: dict[str, Any]) -> float:
    """Devices of a node, those of resource slices and MIG slices included."""
    held = node["allocatable"]
    return float(held["gpus"] + node["dra_gpus"]) + _slices(held["mig"])


def _slices(profiles: dict[str, int]) -> float:
    """A profile counts as many GPUs as it has slices; an unknown name counts nothing."""
    total = 0.0
    for profile, count in profiles.items():
        found = _MIG_SLICES.fullmatch(profile)
        total += int(found[1]) * count if found else 0
    return total

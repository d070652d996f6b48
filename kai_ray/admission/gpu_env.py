"""Tells the container of a pod that shares GPUs which part of each it was given.

The environment variable GPU_PORTION is read from the annotation that arrives with the bind, through
the downward API: nothing has to be written besides. The container is the first, or the one that the
annotation gpu-fraction-container-name names.
"""

from __future__ import annotations

from typing import Any

from kai_ray.admission.refusal import cause
from kai_ray.api import labels as names
from kai_ray.cluster.port import Object

VARIABLE = "GPU_PORTION"


def _shares(pod: Object) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return names.GPU_FRACTION in annotations or names.GPU_MEMORY in annotations


def causes(pod: Object) -> list[Object]:
    """What is wrong with the container that is to get the devices."""
    wanted = (pod["metadata"].get("annotations") or {}).get(names.GPU_FRACTION_CONTAINER)
    if not _shares(pod) or wanted is None or _container(pod) is not None:
        return []
    mend = f"{str(wanted)[:80]!r} is no container of the pod: name one of them or leave it out"
    return [cause(f"metadata.annotations[{names.GPU_FRACTION_CONTAINER}]", mend)]


def add(pod: Object) -> None:
    """Adds the variable, unless the container sets one of that name itself."""
    container = _container(pod) if _shares(pod) else None
    if container is None:
        return
    env = container.get("env") or []
    if not isinstance(env, list) or any(_named(entry, VARIABLE) for entry in env):
        return
    field = {"fieldPath": f"metadata.annotations['{names.GPU_PORTION}']"}
    container["env"] = [*env, {"name": VARIABLE, "valueFrom": {"fieldRef": field}}]


def _container(pod: Object) -> Object | None:
    wanted = (pod["metadata"].get("annotations") or {}).get(names.GPU_FRACTION_CONTAINER)
    spec = pod["spec"]
    if wanted is None:
        first = next(iter(spec.get("containers") or ()), None)
        return first if isinstance(first, dict) else None
    everyone = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return next((c for c in everyone if _named(c, wanted)), None)


def _named(entry: Any, name: str) -> bool:
    return isinstance(entry, dict) and entry.get("name") == name

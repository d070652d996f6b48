"""What the container of a pod that shares cards is told of them, and by which way (KAI 0.17).

Two ways, chosen when the pod is admitted. KAI's: variables that refer to a ConfigMap, the
capabilities map, which is written before the pod is bound; what the container does not refer to one
by one goes into a second map that it takes whole (`-evar`), if it takes one. Ours, where admission
can make up no name: variables that refer to annotations of the pod, which arrive with the bind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster.port import Object
from kai_ray.gpu.isolation import LIMITS

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
COUNT = "RUNAI_NUM_OF_GPUS"
PORTION = "GPU_PORTION"
#: Variables of every pod that shares; the limits are there where the node isolates.
ALWAYS = (VISIBLE, COUNT, PORTION)
_CDI = "k8s.device-plugin.nvidia.com/gpu="


def shares(pod: Object) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return names.GPU_FRACTION in annotations or names.GPU_MEMORY in annotations


def container_of(pod: Object) -> tuple[Object, str] | None:
    """The container that gets the devices, and its index in names of ConfigMaps (KAI: i0 = init).

    The first one, or the one that the annotation names; None where there is no such container.
    """
    wanted = (pod["metadata"].get("annotations") or {}).get(names.GPU_FRACTION_CONTAINER)
    spec = pod["spec"]
    regular = _containers(spec.get("containers"), "")
    if wanted is None:
        return next(regular, None)
    everyone = (*_containers(spec.get("initContainers"), "i"), *regular)
    return next((found for found in everyone if found[0].get("name") == wanted), None)


def _containers(raw: Any, prefix: str) -> Iterator[tuple[Object, str]]:
    for i, container in enumerate(raw if isinstance(raw, list) else ()):
        if isinstance(container, dict):
            yield container, f"{prefix}{i}"


def by_config_map(config_map: str) -> list[Object]:
    """Variables that a ConfigMap fills."""
    found = [
        {"name": name, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": name}}}
        for name in ALWAYS
    ]
    for name in LIMITS:
        source = {"name": config_map, "key": name, "optional": True}
        found.append({"name": name, "valueFrom": {"configMapKeyRef": source}})
    return found


def by_annotations() -> list[Object]:
    """Variables that annotations fill: no limits, as a missing annotation would be an empty one."""
    sources = {VISIBLE: names.GPU_DEVICES, COUNT: names.GPU_PORTION, PORTION: names.GPU_PORTION}
    return [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}}
        for name, key in sources.items()
    ]


def visible(devices: tuple[str, ...], cdi: bool) -> str:
    """The value of NVIDIA_VISIBLE_DEVICES, as the runtime takes it or as CDI does."""
    return ",".join(f"{_CDI}{device}" if cdi else device for device in devices)


def config_map_names(pod: Object) -> tuple[str, str]:
    """The capabilities map of a pod and the one that its container takes whole; "" = none."""
    prefix = str((pod["metadata"].get("annotations") or {}).get(names.SHARED_GPU_CONFIG) or "")
    found = container_of(pod)
    if not prefix or found is None:
        return "", ""
    container, index = found
    name = f"{prefix}-{index}"
    whole = f"{name}-evar"
    taken = {(s.get("configMapRef") or {}).get("name") for s in container.get("envFrom") or ()}
    return name, whole if whole in taken else ""


def config_maps(
    pod: Object, devices: str, portion: str, limits: Mapping[str, str]
) -> tuple[list[Object], bool]:
    """The maps to write before the bind, and whether the limits reach the container."""
    name, whole = config_map_names(pod)
    if not name:
        return [], False
    found = container_of(pod)
    assert found is not None
    referred = {
        (((e.get("valueFrom") or {}).get("configMapKeyRef") or {}).get("key"))
        for e in found[0].get("env") or ()
        if ((e.get("valueFrom") or {}).get("configMapKeyRef") or {}).get("name") == name
    }
    told = {VISIBLE: devices, COUNT: portion, PORTION: portion, **limits}
    direct = {k: v for k, v in told.items() if k in referred or (k in ALWAYS and k != VISIBLE)}
    rest = {k: v for k, v in told.items() if k not in referred and k not in (COUNT, PORTION)}
    made = [_config_map(pod, name, direct)]
    if whole:
        made.append(_config_map(pod, whole, rest))
    return made, bool(limits) and (bool(whole) or set(limits) <= referred)


def _config_map(pod: Object, name: str, data: Mapping[str, str]) -> Object:
    meta = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta.get("uid") or ""}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": meta.get("namespace") or "",
            "ownerReferences": [owner],
        },
        "data": dict(data),
    }

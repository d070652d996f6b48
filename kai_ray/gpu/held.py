"""How many GPUs a pod has or asks for, read off the pod alone."""

from __future__ import annotations

from kai_ray.api import labels, quantity
from kai_ray.cluster.port import Object
from kai_ray.cluster.reservations import is_reservation


def gpus(pod: Object) -> float:
    """GPUs that a pod has or asks for, parts included. What cannot be read counts as none.

    A pod that keeps a card for others has none of its own.
    """
    if is_reservation(pod):
        return 0.0
    annotations = pod["metadata"].get("annotations") or {}
    given = shares(pod)
    if given:
        return sum(given.values())
    fraction = annotations.get(labels.GPU_FRACTION)
    if fraction:
        devices = annotations.get(labels.GPU_FRACTION_DEVICES) or "1"
        try:
            return float(fraction) * int(devices)
        except ValueError:
            return 0.0
    spec = pod.get("spec") or {}
    at_once = 0  # containers and sidecars
    alone = 0  # the largest init container, beside the sidecars started before it
    for container in spec.get("initContainers") or []:
        asked = _devices(container)
        if container.get("restartPolicy") == "Always":
            at_once += asked
        else:
            alone = max(alone, at_once + asked)
    at_once += sum(_devices(c) for c in spec.get("containers") or [])
    return float(max(at_once, alone))


def shares(pod: Object) -> dict[str, float]:
    """The cards that a bound pod shares, by the name of their group, and its part of each."""
    meta = pod["metadata"]
    if is_reservation(pod):
        return {}
    prefix = f"{labels.GPU_GROUP}/"
    stated = (meta.get("labels") or {}).items()
    groups = {str(v) for k, v in stated if k == labels.GPU_GROUP or k.startswith(prefix)}
    if not groups:
        return {}
    annotations = meta.get("annotations") or {}
    part = annotations.get(labels.GPU_PORTION) or annotations.get(labels.GPU_FRACTION) or 0
    try:
        return dict.fromkeys(sorted(groups), float(part))
    except ValueError:
        return dict.fromkeys(sorted(groups), 0.0)


def _devices(container: Object) -> int:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    total = 0
    for name in labels.GPU_RESOURCES:
        try:
            total += quantity.whole(asked.get(name, 0))
        except ValueError:
            continue
    return total

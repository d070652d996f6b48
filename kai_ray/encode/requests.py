"""What a pod asks for: effective requests as the scheduler and the kubelet count them.

max( containers + sidecars , every ordinary init container + the sidecars declared before it )
+ overhead (KAI 0.17). A request that is missing is the limit, as API servers default it.
Pod-level requests, where given, replace the sum over containers (Kubernetes PodLevelResources).
"""

from __future__ import annotations

from typing import Any

from kai_ray.api import quantity
from kai_ray.api.labels import GPU_RESOURCES

from .problems import Malformed

#: Sorted (resource, amount): millicores, bytes, whole units; zeros left out.
Amounts = tuple[tuple[str, int], ...]


def effective(spec: dict[str, Any]) -> Amounts:
    """Raises Malformed."""
    init = spec.get("initContainers")
    containers = spec.get("containers") or ()
    if not init and len(containers) == 1:
        total = container(containers[0], "spec.containers[0]")
    else:
        total = _over_time(containers, init or ())
    pod_level = spec.get("resources")
    if pod_level:
        total.update(container({"resources": pod_level}, "spec"))
    overhead = spec.get("overhead")
    if overhead:
        for name, text in overhead.items():
            total[name] = total.get(name, 0) + amount(name, text, f"spec.overhead[{name}]")
    return tuple(sorted((name, value) for name, value in total.items() if value))


def _over_time(containers: Any, init: Any) -> dict[str, int]:
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for i, c in enumerate(init):
        own = container(c, f"spec.initContainers[{i}]")
        if c.get("restartPolicy") == "Always":
            _add(running, own)
            continue
        for name, value in own.items():
            peak[name] = max(peak.get(name, 0), value + running.get(name, 0))
        for name, value in running.items():
            peak[name] = max(peak.get(name, 0), value + own.get(name, 0))
    for i, c in enumerate(containers):
        _add(running, container(c, f"spec.containers[{i}]"))
    for name, value in peak.items():
        running[name] = max(running.get(name, 0), value)
    return running


def container(c: dict[str, Any], field: str) -> dict[str, int]:
    """The requests of one container."""
    resources = c.get("resources")
    if not resources:
        return {}
    requests = resources.get("requests") or {}
    limits = resources.get("limits")
    if limits:
        requests = {**limits, **requests}
    return {
        name: amount(name, text, f"{field}.resources.requests[{name}]")
        for name, text in requests.items()
    }


def amount(name: str, text: Any, field: str) -> int:
    """One quantity in the unit of its row. Raises Malformed: no number, negative, too large."""
    try:
        value = quantity.milli(text) if name == "cpu" else quantity.whole(text)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Malformed(field, str(error)) from None
    if value < 0:
        raise Malformed(field, f"{text!r} is negative: write 0 or more")
    return value


def gpus(amounts: Amounts) -> int:
    """Whole devices, all vendors together."""
    return sum(value for name, value in amounts if name in GPU_RESOURCES)


def _add(into: dict[str, int], more: dict[str, int]) -> None:
    for name, value in more.items():
        into[name] = into.get(name, 0) + value

"""The devices that pods claim, as far as manifests tell: class by class, beside their requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kai_ray.encode.dra import asks
from kai_ray.encode.problems import MISREAD

from .values import Object
from .workload import Reader

_API = "resource.k8s.io/v1"


def claimed_devices(
    members: Iterable[tuple[Object, int]], reader: Reader, namespace: str
) -> dict[str, str]:
    """What (pod template, pods) claim: "gpu.nvidia.com devices" -> "8".

    A claim that pods share counts once; of what is not among the manifests only the name is known.
    """
    found: dict[str, int] = {}
    texts: dict[str, str] = {}
    shared: set[str] = set()
    for template, pods in members:
        for entry in _entries(template):
            name = entry.get("resourceClaimName")
            if isinstance(name, str) and name in shared:
                continue
            times = pods
            if isinstance(name, str):
                shared.add(name)
                times, spec = 1, _spec(reader.get(_API, "ResourceClaim", name, namespace))
                title = f"claim {name}"
            else:
                name = str(entry.get("resourceClaimTemplateName") or "")
                made = reader.get(_API, "ResourceClaimTemplate", name, namespace)
                spec = _spec(_part(made, "spec"))
                title = f"template {name}"
            counts = None if spec is None else _counts(spec)
            if counts is None:
                texts[f"devices of {title}"] = "?" if times == 1 else f"{times} times"
                continue
            for device, count in counts.items():
                if count == asks.ALL:
                    texts[f"{device} devices"] = "all"
                else:
                    found[device] = found.get(device, 0) + count * times
    stated = {f"{name} devices": str(count) for name, count in found.items()}
    return dict(sorted({**stated, **texts}.items()))


def _entries(template: Object) -> Iterable[dict[str, Any]]:
    spec = template.get("spec")
    entries = spec.get("resourceClaims") if isinstance(spec, dict) else None
    return [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []


def _part(obj: Any, field: str) -> Any:
    return obj.get(field) if isinstance(obj, dict) else None


def _spec(claim: Any) -> dict[str, Any] | None:
    spec = _part(claim, "spec")
    return spec if isinstance(spec, dict) else None


def _counts(spec: dict[str, Any]) -> dict[str, int] | None:
    """Devices by class, of several alternatives the first; None where the claim cannot be read."""
    found: dict[str, int] = {}
    try:
        requests = asks.read(spec).requests
    except MISREAD:
        return None
    for request in requests:
        option = request.options[0]
        name = option.predicate.device_class
        if found.get(name) == asks.ALL or option.count == asks.ALL:
            found[name] = asks.ALL
        else:
            found[name] = found.get(name, 0) + option.count
    return found

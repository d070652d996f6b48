"""How a pod is aligned to the zones of its node: what its QoS, containers and annotation say.

A guaranteed pod is aligned in all it asks (whole CPUs only); any other in its devices. Source: KAI
0.17, plugin numa; the annotation is ours.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kai_ray.api import labels as names

from . import requests
from .problems import Malformed, text
from .requests import Amounts

BEST_EFFORT, RESTRICTED, SINGLE, NVLINK = "best-effort", "restricted", "single-numa", "nvlink"
POLICIES = (BEST_EFFORT, RESTRICTED, SINGLE, NVLINK)
_COUNTED = ("cpu", "memory")


class ZoneAsk(NamedTuple):
    guaranteed: bool = False
    cpu: int = 0  # millicores of the whole pod that are aligned
    policies: tuple[str, ...] = ()  # of POLICIES, sorted
    containers: tuple[tuple[Amounts, bool], ...] = ()
    """(what it asks, whether it is an ordinary init container); empty = as the whole pod."""


NO_ZONES = ZoneAsk()


def is_device(name: str) -> bool:
    """Whether a resource is aligned for pods of every QoS."""
    plain = name in _COUNTED or name.startswith("hugepages-")
    return not plain and name not in ("pods", "ephemeral-storage")


def read(spec: dict[str, Any], annotations: dict[str, Any]) -> ZoneAsk:
    """Raises Malformed."""
    stated = annotations.get(names.NODE_TOPOLOGY_POLICY)
    asked_for = policies(stated, f"metadata.annotations[{names.NODE_TOPOLOGY_POLICY}]")
    init, apps = spec.get("initContainers") or (), spec.get("containers") or ()
    every = [*init, *apps]
    guaranteed = bool(every) and all(map(_guaranteed, every))
    if not guaranteed and not asked_for and len(every) == 1:
        return NO_ZONES
    sidecars = [c for c in init if c.get("restartPolicy") == "Always"]
    units = [(c, False) for c in (*sidecars, *apps)]
    units += [(c, True) for c in init if c.get("restartPolicy") != "Always"]
    asked = [(_aligned(c, guaranteed), serial) for c, serial in units]
    asked = [(amounts, serial) for amounts, serial in asked if amounts]
    cpu = _pod_cpu(init, apps) if guaranteed else 0
    return ZoneAsk(guaranteed, cpu, asked_for, tuple(asked) if len(asked) > 1 else ())


def policies(raw: Any, field: str) -> tuple[str, ...]:
    """Policies separated by commas, as a pod or a queue states them. Raises Malformed."""
    found = sorted({part.strip() for part in text(raw, field).split(",")} - {""})
    for policy in found:
        if policy not in POLICIES:
            raise Malformed(field, f"{policy!r} is none of {', '.join(POLICIES)}")
    return tuple(found)


def _guaranteed(container: dict[str, Any]) -> bool:
    """CPU and memory are limited, and what is asked is the limit."""
    resources = container.get("resources") or {}
    limits, asked = resources.get("limits") or {}, resources.get("requests") or {}
    for name in _COUNTED:
        if name not in limits:
            return False
        limit = requests.amount(name, limits[name], f"resources.limits[{name}]")
        if name in asked and requests.amount(name, asked[name], "resources.requests") != limit:
            return False
        if not limit:
            return False
    return True


def _aligned(container: dict[str, Any], guaranteed: bool) -> Amounts:
    asked = requests.container(container, "spec.containers")
    if guaranteed and asked.get("cpu", 0) % 1000:
        del asked["cpu"]
    return tuple(sorted((n, v) for n, v in asked.items() if v and (guaranteed or is_device(n))))


def _pod_cpu(init: Any, apps: Any) -> int:
    """Whole CPUs of the pod at its peak."""
    running, peak = 0, 0
    for container in init:
        cpu = dict(_aligned(container, guaranteed=True)).get("cpu", 0)
        if container.get("restartPolicy") == "Always":
            running += cpu
        else:
            peak = max(peak, running + cpu)
    running += sum(dict(_aligned(c, guaranteed=True)).get("cpu", 0) for c in apps)
    return max(peak, running)

"""What makes claims, slices and device classes malformed (Kubernetes resource.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kai_ray.cluster.port import Object

from .meta import Cause, cause
from .value_rules import listed, required, wrong_type

Json = dict[str, Any]


def claim(new: Object, old: Object | None) -> Iterator[Cause]:
    """A ResourceClaim: what it asks is settled when it is made."""
    if old is not None:
        if old.get("spec") != new.get("spec"):
            yield cause("spec", "field is immutable: create another object", "FieldValueInvalid")
        return
    yield from _claim_spec(new.get("spec"), "spec")


def template(new: Object, old: Object | None) -> Iterator[Cause]:
    spec = new.get("spec")
    if not isinstance(spec, dict):
        yield required("spec")
        return
    if old is not None and old.get("spec") != spec:
        yield cause("spec", "field is immutable: create another object", "FieldValueInvalid")
    elif old is None:
        yield from _claim_spec(spec.get("spec"), "spec.spec")


def _claim_spec(spec: Any, field: str) -> Iterator[Cause]:
    causes: list[Cause] = []
    devices = _part(spec, "devices", field, causes)
    for where, request in listed(devices.get("requests"), f"{field}.devices.requests", causes):
        if not request.get("name"):
            causes.append(required(f"{where}.name"))
        ways = [k for k in ("exactly", "firstAvailable") if request.get(k)]
        if len(ways) != 1:
            mend = "exactly one of `exactly` and `firstAvailable` is required"
            causes.append(cause(where, mend, "FieldValueInvalid"))
        exact = request.get("exactly")
        if isinstance(exact, dict) and not exact.get("deviceClassName"):
            causes.append(required(f"{where}.exactly.deviceClassName"))
    yield from causes


def _part(spec: Any, name: str, field: str, causes: list[Cause]) -> Json:
    found = spec.get(name) if isinstance(spec, dict) else None
    if found is None:
        return {}
    if not isinstance(found, dict):
        causes.append(wrong_type(f"{field}.{name}", found, "an object"))
        return {}
    return found


def slice_(new: Object, old: Object | None) -> Iterator[Cause]:
    causes: list[Cause] = []
    spec = new.get("spec")
    if not isinstance(spec, dict):
        yield required("spec")
        return
    if not spec.get("driver"):
        causes.append(required("spec.driver"))
    if not _part(spec, "pool", "spec", causes).get("name"):
        causes.append(required("spec.pool.name"))
    for where, device in listed(spec.get("devices"), "spec.devices", causes):
        if not device.get("name"):
            causes.append(required(f"{where}.name"))
    yield from causes

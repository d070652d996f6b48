"""What a ResourceClaim asks for: requests of devices and the constraints between them.

Source: Kubernetes resource.k8s.io/v1 (`exactly`, `firstAvailable`); in v1beta1 the fields of
`exactly` stand in the request itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kai_ray.encode.problems import Malformed, text

from .attributes import Name

ALL = 0
"""The count of a request for all devices that match."""
MOST_DEVICES = 32
"""Devices that one claim may hold (Kubernetes AllocationResultsMaxSize)."""


class Taint(NamedTuple):
    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    key: str  # "" with Exists tolerates every key
    op: str  # Equal, Exists
    value: str
    effect: str  # "" = every effect

    def covers(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key != taint.key and not (self.key == "" and self.op == "Exists"):
            return False
        return self.op == "Exists" or self.value == taint.value


class Predicate(NamedTuple):
    """Which devices suit. Equal predicates see the same devices."""

    device_class: str
    selectors: tuple[str, ...] = ()  # CEL, all of them; those of the class come on top
    tolerations: tuple[Toleration, ...] = ()


class Option(NamedTuple):
    """One way to meet a request."""

    name: str  # of the subrequest; "" for an exact request
    predicate: Predicate
    count: int  # ALL = as many as match
    admin: bool = False  # looks at devices without taking them


class Request(NamedTuple):
    name: str
    options: tuple[Option, ...]  # the first that can be met


class ClaimAsk(NamedTuple):
    """The requests of one claim; `shared` names a claim that its pods name themselves."""

    requests: tuple[Request, ...]
    match: tuple[tuple[Name, tuple[str, ...]], ...] = ()
    """(attribute, requests whose devices must have the same value of it; () = all)"""
    shared: str = ""


#: What a pod asks of devices, claim by claim.
DeviceAsk = tuple[ClaimAsk, ...]


def read(spec: dict[str, Any]) -> ClaimAsk:
    """A claim's spec. Raises Malformed."""
    devices = spec.get("devices") or {}
    requests = tuple(
        _request(raw, f"spec.devices.requests[{i}]")
        for i, raw in enumerate(devices.get("requests") or ())
    )
    least = sum(min(o.count for o in r.options) for r in requests)
    if least > MOST_DEVICES:
        mend = f"ask for {least} devices: a claim holds at most {MOST_DEVICES}, use several"
        raise Malformed("spec.devices.requests", mend)
    match = tuple(
        _constraint(raw, f"spec.devices.constraints[{i}]")
        for i, raw in enumerate(devices.get("constraints") or ())
    )
    return ClaimAsk(requests, match)


def _request(raw: dict[str, Any], field: str) -> Request:
    name = text(raw.get("name"), f"{field}.name")
    several = raw.get("firstAvailable")
    if several:
        options = [
            _option(one, f"{field}.firstAvailable[{i}]", text(one.get("name"), f"{field}.name"))
            for i, one in enumerate(several)
        ]
        return Request(name, tuple(options))
    exact = raw.get("exactly")
    if exact is None:
        exact = raw
        if not raw.get("deviceClassName"):
            raise Malformed(field, "is neither `exactly` nor `firstAvailable`: use one of them")
    return Request(name, (_option(exact, field, ""),))


def _option(raw: dict[str, Any], field: str, name: str) -> Option:
    if raw.get("capacity"):
        raise Malformed(
            f"{field}.capacity", "asks for a part of a device: only whole devices are given"
        )
    predicate = Predicate(
        text(raw.get("deviceClassName"), f"{field}.deviceClassName"),
        selectors(raw.get("selectors"), f"{field}.selectors"),
        tuple(sorted(_toleration(t, field) for t in raw.get("tolerations") or ())),
    )
    if not predicate.device_class:
        raise Malformed(f"{field}.deviceClassName", "is missing: name a DeviceClass")
    return Option(name, predicate, _count(raw, field), bool(raw.get("adminAccess")))


def _count(raw: dict[str, Any], field: str) -> int:
    mode = raw.get("allocationMode") or "ExactCount"
    if mode == "All":
        return ALL
    if mode != "ExactCount":
        raise Malformed(f"{field}.allocationMode", f"{mode!r} is neither ExactCount nor All")
    count = raw.get("count") or 1
    if type(count) is not int or not 1 <= count <= MOST_DEVICES:
        raise Malformed(f"{field}.count", f"{count!r} is no number of devices from 1 to 32")
    return count


def _constraint(raw: dict[str, Any], field: str) -> tuple[Name, tuple[str, ...]]:
    name = text(raw.get("matchAttribute"), f"{field}.matchAttribute")
    if not name:
        kind = ", ".join(sorted(k for k in raw if k != "requests")) or "nothing"
        raise Malformed(field, f"states {kind}: only matchAttribute is understood")
    domain, slash, own = name.partition("/")
    if not slash:
        raise Malformed(f"{field}.matchAttribute", f"{name!r} has no domain: write domain/name")
    named = tuple(sorted(text(r, f"{field}.requests") for r in raw.get("requests") or ()))
    return (domain, own), named


def selectors(raw: Any, field: str) -> tuple[str, ...]:
    """CEL expressions, in order. Raises Malformed."""
    found: list[str] = []
    for i, one in enumerate(raw or ()):
        expression = text((one.get("cel") or {}).get("expression"), f"{field}[{i}].cel.expression")
        if not expression:
            raise Malformed(f"{field}[{i}]", "is no CEL selector: only `cel` is understood")
        found.append(expression)
    return tuple(found)


def taints(raw: Any, field: str) -> tuple[Taint, ...]:
    """Taints that keep pods off a device. Raises Malformed."""
    found = [
        Taint(*(text(t.get(k), f"{field}.{k}") for k in ("key", "value", "effect")))
        for t in raw or ()
    ]
    return tuple(sorted(t for t in found if t.effect in ("NoSchedule", "NoExecute")))


def _toleration(raw: dict[str, Any], field: str) -> Toleration:
    op = text(raw.get("operator"), f"{field}.tolerations.operator") or "Equal"
    if op not in ("Equal", "Exists"):
        raise Malformed(f"{field}.tolerations.operator", f"{op!r} is neither Equal nor Exists")
    key, value, effect = (
        text(raw.get(k), f"{field}.tolerations.{k}") for k in ("key", "value", "effect")
    )
    return Toleration(key, op, value, effect)

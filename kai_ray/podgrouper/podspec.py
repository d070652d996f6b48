"""What one pod asks of a node: containers, sidecars, init containers, overhead."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from kai_ray.api.quantity import parse

from .values import GroupError, Object, mapping, sequence

Amounts = dict[str, Decimal]

#: Resources that may be stated for the pod as a whole instead of per container.
_POD_LEVEL = ("cpu", "memory", "hugepages-")


def pod_requests(template: Object, field: str = "template") -> Amounts:
    """Effective request of a pod (template), per resource, in base units (cores, bytes, pieces).

    The larger of: containers with sidecars together; each init container with the sidecars started
    before it. Then overhead. Raises GroupError at a quantity that cannot be read.
    """
    spec = mapping(template, "spec", field)
    where = f"{field}.spec"
    running: Amounts = {}
    peak: Amounts = {}
    for i, raw in enumerate(sequence(spec, "initContainers", where)):
        at = f"{where}.initContainers[{i}]"
        amounts = _container(raw, at)
        if isinstance(raw, dict) and raw.get("restartPolicy") == "Always":
            _add(running, amounts)
            _raise_to(peak, running)
        else:
            _raise_to(peak, _sum(running, amounts))
    for i, raw in enumerate(sequence(spec, "containers", where)):
        _add(running, _container(raw, f"{where}.containers[{i}]"))
    _raise_to(peak, running)
    stated = _amounts(mapping(spec, "resources", where), f"{where}.resources")
    peak.update({k: v for k, v in stated.items() if k.startswith(_POD_LEVEL)})
    _add(peak, _quantities(mapping(spec, "overhead", where), f"{where}.overhead"))
    return {name: amount for name, amount in peak.items() if amount}


def _container(raw: Any, field: str) -> Amounts:
    if not isinstance(raw, dict):
        raise GroupError(field, "is not an object", "write a container there")
    return _amounts(mapping(raw, "resources", field), f"{field}.resources")


def _amounts(resources: Object, field: str) -> Amounts:
    """Requests; where one is missing, the limit stands for it, as the API server fills it in."""
    limits = _quantities(mapping(resources, "limits", field), f"{field}.limits")
    requests = _quantities(mapping(resources, "requests", field), f"{field}.requests")
    return {**limits, **requests}


def _quantities(raw: Object, field: str) -> Amounts:
    found: Amounts = {}
    for name, value in raw.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise GroupError(
                f"{field}.{name}", f"{value!r} is not a quantity", "write e.g. 2, 500m or 4Gi"
            )
        try:
            amount = parse(value)
        except ValueError as error:
            problem = str(error).partition(": ")[0]
            raise GroupError(f"{field}.{name}", problem, "write e.g. 2, 500m or 4Gi") from None
        if amount < 0:
            raise GroupError(f"{field}.{name}", f"{value!r} is below 0", "write 0 or more")
        found[name] = amount
    return found


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount


def _sum(a: Amounts, b: Amounts) -> Amounts:
    total = dict(a)
    _add(total, b)
    return total


def _raise_to(peak: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        peak[name] = max(peak.get(name, Decimal(0)), amount)


def total_requests(parts: list[tuple[Amounts, int]]) -> Amounts:
    """Sum of (request of one pod, number of pods)."""
    total: Amounts = {}
    for amounts, count in parts:
        for name, amount in amounts.items():
            total[name] = total.get(name, Decimal(0)) + amount * count
    return total


_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_BINARY = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_DECIMAL = (("E", 10**18), ("P", 10**15), ("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3))


def quantity_text(name: str, amount: Decimal) -> str:
    """As Kubernetes writes it, exactly: 1500m of a core, and the shortest suffix for bytes."""
    if amount != amount.to_integral_value():
        milli = amount * 1000
        if milli == milli.to_integral_value():
            return f"{int(milli)}m"
        return format(amount.normalize(), "f")
    value = int(amount)
    forms = [str(value)]
    if name.startswith(_BYTES) and value:
        forms += [f"{value // u}{suffix}" for suffix, u in _BINARY + _DECIMAL if value % u == 0]
    return min(forms, key=len)

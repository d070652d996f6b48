"""Typed attributes and capacities of devices, as drivers state them and as CEL reads them.

A name without a domain belongs to the driver's own domain. A version is a list that compares as
semantic versions do: [major, minor, patch, 1 if it is no pre-release, identifiers ...].
"""

from __future__ import annotations

import re
from typing import Any

from kai_ray.api import quantity
from kai_ray.encode.problems import Malformed

#: bool, int, text, version, or a list of those.
Value = Any
#: (domain, name) of an attribute or a capacity.
Name = tuple[str, str]

_VERSION = re.compile(
    r"(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
)
_MOST = 2**63


def qualified(name: str, driver: str) -> Name:
    """The domain and the name in it."""
    domain, slash, own = name.partition("/")
    return (domain, own) if slash else (driver, name)


def version(text: str) -> list[Any]:
    """Raises ValueError."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no semantic version: write for example 1.2.3")
    major, minor, patch, early = found.groups()
    return [int(major), int(minor), int(patch), int(early is None), *(early or "").split(".")]


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1, for quantities and for versions."""
    left, right = _order(a), _order(b)
    return (left > right) - (left < right)


def _order(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    early = [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in map(str, value[4:])]
    return value[:4], early


def attribute(raw: dict[str, Any], field: str) -> Value:
    """One of bool, int, string, version, or a list of one of them. Raises Malformed."""
    stated = [(kind, value) for kind, value in raw.items() if value is not None]
    if len(stated) != 1:
        raise Malformed(field, "states not exactly one value: give bool, int, string or version")
    kind, value = stated[0]
    single = kind.removesuffix("s") if isinstance(value, list) else kind
    if isinstance(value, list):
        return [_single(single, one, field) for one in value]
    return _single(single, value, field)


def _single(kind: str, value: Any, field: str) -> Value:
    if kind == "bool" and type(value) is bool:
        return value
    if kind == "int" and type(value) is int and -_MOST <= value < _MOST:
        return value
    if kind == "string" and type(value) is str:
        return value
    if kind == "version" and type(value) is str:
        try:
            return version(value)
        except ValueError as error:
            raise Malformed(f"{field}.version", str(error)) from None
    raise Malformed(f"{field}.{kind}", f"{value!r} is no value of that type")


def capacity(raw: Any, field: str) -> float:
    """An amount, in base units. Raises Malformed."""
    value = raw.get("value") if isinstance(raw, dict) else raw
    try:
        return float(quantity.parse(value))
    except (ValueError, TypeError, ArithmeticError) as error:
        raise Malformed(field, str(error)) from None

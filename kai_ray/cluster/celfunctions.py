"""Functions that Kubernetes adds to CEL: lists, text, regular expressions, quantities.

Called as functions or as methods; the first argument is the receiver. A quantity is its value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from kai_ray.api import quantity as quantities

#: Longer patterns and texts are not matched: rules come from users.
_LONGEST = 10_000


def _index_of(value: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(value, str):
        return value.find(wanted, start)
    return next((i for i, item in enumerate(value) if item == wanted), -1)


def _last_index_of(value: Any, wanted: Any) -> int:
    if isinstance(value, str):
        return value.rfind(wanted)
    return next((i for i in reversed(range(len(value))) if value[i] == wanted), -1)


def _is_sorted(items: list[Any]) -> bool:
    return all(a <= b for a, b in pairwise(items))


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text[:_LONGEST])
    return match[0] if match else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found = [m[0] for m in re.finditer(pattern, text[:_LONGEST])]
    return found if most < 0 else found[:most]


def _split(text: str, by: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    parts = list(text) if by == "" else text.split(by, -1 if most < 0 else most - 1)
    return parts


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    return text.replace(old, new, most)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if not 0 <= start <= len(text) or (end is not None and not start <= end <= len(text)):
        raise ValueError(f"substring {start}:{end} is outside of the text")
    return text[start:end]


def _join(items: list[str], by: str = "") -> str:
    return by.join(items)


def _quantity(text: str) -> float:
    return float(quantities.parse(text))


def _is_quantity(text: Any) -> bool:
    try:
        quantities.parse(text)
    except ValueError:
        return False
    return isinstance(text, str)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool((parts.scheme and parts.netloc) or text.startswith("/"))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "isSorted": _is_sorted,
    "sum": sum,
    "min": min,
    "max": max,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "find": _find,
    "findAll": _find_all,
    "split": _split,
    "join": _join,
    "replace": _replace,
    "substring": _substring,
    "trim": str.strip,
    "lowerAscii": str.lower,
    "upperAscii": str.upper,
    "charAt": lambda text, i: text[i : i + 1],
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "isGreaterThan": lambda a, b: a > b,
    "isLessThan": lambda a, b: a < b,
    "compareTo": lambda a, b: (a > b) - (a < b),
    "isInteger": lambda a: float(a).is_integer(),
    "asInteger": int,
    "asApproximateFloat": float,
    "sign": lambda a: (a > 0) - (a < 0),
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "isURL": _is_url,
}

"""Copies of JSON values on their way in."""

from __future__ import annotations

import math
from typing import Any

from kai_ray.cluster.port import BadRequest

DEEPEST = 100


def clone(value: Any, path: str = "", depth: int = 0) -> Any:
    """A deep copy that drops nulls in objects and writes whole numbers without a fraction.

    Refuses what JSON cannot say, by field name.
    """
    kind = type(value)
    if kind is str or kind is bool:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else _as_float(value, path)
    if depth > DEEPEST:
        raise BadRequest(f"{path}: nested more than {DEEPEST} levels deep")
    if kind is dict:
        out: dict[str, Any] = {}
        for key, item in value.items():
            if item is None:
                continue
            item_kind = type(item)
            if item_kind is str or item_kind is bool:
                out[key] = item
            else:
                out[key] = clone(item, f"{path}.{key}" if path else str(key), depth + 1)
            if type(key) is not str:
                raise BadRequest(f"{path or 'object'}: key {key!r} must be text")
        return out
    if kind is list or kind is tuple:
        return [clone(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    if value is None:
        return None
    if kind is float:
        if not math.isfinite(value):
            raise BadRequest(f"{path}: {value} is not a number that JSON can say")
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, dict):
        return clone(dict(value), path, depth)
    if isinstance(value, str):
        return str(value)
    raise BadRequest(f"{path}: {kind.__name__} is no JSON value")


def _as_float(value: int, path: str) -> float:
    """Integers beyond 64 bits become floats, as Kubernetes reads them; bounds refuse them later."""
    try:
        return float(value)
    except OverflowError:
        raise BadRequest(f"{path}: the number has {len(str(value))} digits") from None


def clone_patch(value: Any) -> Any:
    """A deep copy that keeps nulls: in a patch they delete."""
    if isinstance(value, dict):
        return {k: clone_patch(v) for k, v in value.items()}
    if isinstance(value, list):
        return [clone_patch(v) for v in value]
    return clone(value)


def merge_patch(base: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386). Neither argument is changed; unchanged parts are shared."""
    if not isinstance(patch, dict):
        return clone(patch)
    out: dict[str, Any] = dict(base) if isinstance(base, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            out[key] = merge_patch(out.get(key), value)
        else:
            out[key] = clone(value)
    return out

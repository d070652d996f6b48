"""Merge patches (RFC 7386): the smallest one between two objects, and when one may apply."""

from __future__ import annotations

from typing import Any


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """{} if they are equal. What `new` lacks becomes null."""
    patch: dict[str, Any] = {}
    for key, value in new.items():
        known = old.get(key)
        if known == value and key in old:
            continue
        if isinstance(known, dict) and isinstance(value, dict):
            patch[key] = difference(known, value)
        else:
            patch[key] = value
    for key in old:
        if key not in new:
            patch[key] = None
    return patch


def unchanged(obj: dict[str, Any]) -> dict[str, Any]:
    """Metadata of a patch that is refused with Conflict unless the object is as it was seen."""
    about = obj["metadata"]
    return {k: about[k] for k in ("uid", "resourceVersion") if about.get(k)}

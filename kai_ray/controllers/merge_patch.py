"""The smallest merge patch that turns one JSON object into another (RFC 7386)."""

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

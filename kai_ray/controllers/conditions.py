"""Kubernetes conditions: the time of transition moves only with the status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kai_ray.cluster.port import Object

_LONGEST = 4000


def condition(
    kind: str, status: bool, reason: str, message: str, *, now: str, generation: Any = None
) -> Object:
    made: Object = {
        "type": kind,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message[:_LONGEST],
        "lastTransitionTime": now,
    }
    if generation is not None:
        made["observedGeneration"] = generation
    return made


def merged(old: Sequence[Object], new: Sequence[Object], drop: Sequence[str] = ()) -> list[Object]:
    """`old` with `new` in their places; types that are neither stay, as somebody else's."""
    fresh = {c["type"]: c for c in new}
    result: list[Object] = []
    for known in old:
        kind = known.get("type")
        if kind in drop:
            continue
        replacement = fresh.pop(kind, None) if isinstance(kind, str) else None
        if replacement is None:
            result.append(known)
            continue
        if known.get("status") == replacement["status"] and known.get("lastTransitionTime"):
            replacement = {**replacement, "lastTransitionTime": known["lastTransitionTime"]}
        result.append(replacement)
    return result + list(fresh.values())


def find(obj: Object, kind: str) -> Object:
    """The condition of a type, or {}."""
    for known in (obj.get("status") or {}).get("conditions") or ():
        if known.get("type") == kind:
            return known
    return {}

"""Refusals as the API words them: every cause with its field and its mend."""

from __future__ import annotations

from kai_ray.cluster.port import Invalid, Object, Resource


def cause(field: str, message: str, reason: str = "FieldValueInvalid") -> Object:
    """One thing that is wrong; `message` says what to write instead."""
    return {"reason": reason, "message": message, "field": field}


def refusal(resource: Resource, name: str, causes: list[Object]) -> Invalid:
    words = [f"{c['field']}: {c['message']}" for c in causes]
    joined = words[0] if len(words) == 1 else "[" + ", ".join(words) + "]"
    return Invalid(
        f'{resource.kind}.{resource.group or "core"} "{name}" is invalid: {joined}',
        details={
            "name": name,
            "group": resource.group,
            "kind": resource.kind,
            "causes": causes,
        },
    )

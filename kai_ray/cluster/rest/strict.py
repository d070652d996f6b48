"""Field validation: fields that a kind does not have are refused, warned of, or ignored."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster.memory import Served
from kai_ray.cluster.port import BadRequest, Invalid, Object

from .call import Call
from .openapi.document import Documents

MOST_NAMED = 20
_TOP = ("apiVersion", "kind", "metadata")


def check_fields(documents: Documents, call: Call, served: Served, obj: Object) -> None:
    """Acts on the query's fieldValidation: Strict refuses, Warn adds to the call's warnings."""
    mode = call.query.get("fieldValidation") or "Warn"
    if mode not in ("Strict", "Warn", "Ignore"):
        raise Invalid(f"fieldValidation {mode!r}: use Strict, Warn or Ignore")
    # Warnings that nobody asked for are not worth the first look at the models.
    if mode == "Ignore" or "fieldValidation" not in call.query:
        return
    unknown = [f'unknown field "{path}"' for path in unknown_fields(documents, served, obj)]
    if mode == "Warn":
        call.warnings.extend(unknown[:MOST_NAMED])
    elif unknown:
        res = served.resource
        raise BadRequest(
            f'{res.kind} in version "{res.version}" cannot be handled as a {res.kind}: '
            f"strict decoding error: {', '.join(unknown[:MOST_NAMED])}"
        )


def unknown_fields(documents: Documents, served: Served, obj: Object) -> list[str]:
    """The dotted paths of fields that the kind does not have."""
    if served.schema is not None:
        return served.schema.unknown({k: v for k, v in obj.items() if k not in _TOP})
    schema, components = documents.schema(served)
    found: list[str] = []
    _walk(schema, components, obj, "", found)
    return found


def _walk(
    schema: Object, components: dict[str, Object], value: Any, path: str, found: list[str]
) -> None:
    while target := schema.get("$ref") or (schema.get("allOf") or [{}])[0].get("$ref"):
        schema = components[target.rpartition("/")[2]]
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for i, item in enumerate(value):
                _walk(items, components, item, f"{path}[{i}]", found)
        return
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    properties = schema.get("properties")
    extra = schema.get("additionalProperties")
    if properties is None and not isinstance(extra, dict):
        return
    for key, item in value.items():
        where = f"{path}.{key}" if path else key
        if key.startswith("$") or item is None:
            continue  # a directive of a strategic merge patch; a removal
        inner = (properties or {}).get(key, extra)
        if isinstance(inner, dict):
            _walk(inner, components, item, where, found)
        else:
            found.append(where)

"""JSON patch (RFC 6902)."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster.port import BadRequest, Invalid

from .copying import clone

MOST_OPERATIONS = 10_000


def json_patch(base: Any, operations: Any) -> Any:
    """A changed copy of `base`. Raises BadRequest (malformed) or Invalid (does not apply)."""
    if not isinstance(operations, list):
        raise BadRequest('a JSON patch is a list such as [{"op": "add", "path": "/a", "value": 1}]')
    if len(operations) > MOST_OPERATIONS:
        raise BadRequest(f"a JSON patch may have at most {MOST_OPERATIONS} operations")
    doc = clone(base)
    for i, op in enumerate(operations):
        doc = _apply(doc, op, i)
    return doc


def _apply(doc: Any, op: Any, i: int) -> Any:
    if not isinstance(op, dict) or not isinstance(op.get("path"), str):
        raise BadRequest(f"operation {i} needs op and path")
    kind: Any = op.get("op")
    path = _pointer(op["path"], i)
    if kind in ("add", "replace", "test"):
        if "value" not in op:
            raise BadRequest(f"operation {i} ({kind}) needs a value")
        value = clone(op["value"])
    elif kind in ("move", "copy"):
        if not isinstance(op.get("from"), str):
            raise BadRequest(f"operation {i} ({kind}) needs from")
        source = _pointer(op["from"], i)
        value = clone(_find(doc, source, i))
        if kind == "move":
            if path[: len(source)] == source and path != source:
                raise Invalid(f"operation {i}: cannot move {op['from']} into itself")
            doc = _remove(doc, source, i)
    elif kind == "remove":
        return _remove(doc, path, i)
    else:
        raise BadRequest(f"operation {i}: {kind!r} is not add, remove, replace, move, copy or test")
    if kind == "test":
        if _find(doc, path, i) != value:
            raise Invalid(f"operation {i}: test of {op['path']} failed")
        return doc
    if kind == "replace":
        _find(doc, path, i)
    return _put(doc, path, value, i, insert=kind != "replace")


def _pointer(text: str, i: int) -> list[str]:
    if text == "":
        return []
    if not text.startswith("/"):
        raise BadRequest(f"operation {i}: path {text!r} must begin with '/'")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _index(parent: list[Any], part: str, i: int, *, end: bool = False) -> int:
    if part == "-" and end:
        return len(parent)
    if part.isdigit() and (part == "0" or not part.startswith("0")):
        at = int(part)
        if at < len(parent) or (end and at == len(parent)):
            return at
    raise Invalid(f"operation {i}: {part!r} is no index of a list of {len(parent)} items")


def _find(doc: Any, path: list[str], i: int) -> Any:
    for part in path:
        if isinstance(doc, list):
            doc = doc[_index(doc, part, i)]
        elif isinstance(doc, dict) and part in doc:
            doc = doc[part]
        else:
            raise Invalid(f"operation {i}: the path has no field {part!r}: add it first")
    return doc


def _put(doc: Any, path: list[str], value: Any, i: int, *, insert: bool) -> Any:
    if not path:
        return value
    parent = _find(doc, path[:-1], i)
    part = path[-1]
    if isinstance(parent, list):
        at = _index(parent, part, i, end=insert)
        parent[at : at if insert else at + 1] = [value]
    elif isinstance(parent, dict):
        parent[part] = value
    else:
        raise Invalid(f"operation {i}: {part!r} lies inside a plain value")
    return doc


def _remove(doc: Any, path: list[str], i: int) -> Any:
    if not path:
        raise Invalid(f"operation {i}: the whole object cannot be removed")
    _find(doc, path, i)
    parent = _find(doc, path[:-1], i)
    if isinstance(parent, list):
        del parent[_index(parent, path[-1], i)]
    else:
        del parent[path[-1]]
    return doc

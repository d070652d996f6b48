"""Sets of fields as managedFields writes them (fieldsV1), and what is at them.

A field is a tuple of path elements: "f:NAME" a field, 'k:{"name":"a"}' an item of a list map,
'v:"x"' a member of a list set. Only leaves are members, and items of list maps themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from .shapes import Shape

Path = tuple[str, ...]
Fields = frozenset[Path]
Json = dict[str, Any]

#: What the server owns: no manager ever does.
_SERVER = {
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata", "f:name"),
    ("f:metadata", "f:namespace"),
    ("f:metadata", "f:uid"),
    ("f:metadata", "f:resourceVersion"),
    ("f:metadata", "f:generation"),
    ("f:metadata", "f:creationTimestamp"),
    ("f:metadata", "f:deletionTimestamp"),
    ("f:metadata", "f:deletionGracePeriodSeconds"),
    ("f:metadata", "f:selfLink"),
    ("f:metadata", "f:generateName"),
}


def leaves(obj: Json, shape: Shape) -> dict[Path, Any]:
    """Every field of an object that can be owned, with its value.

    Items of list maps and empty objects are members without a value (None): to own them is no
    claim on what is inside.
    """
    return {
        path: value
        for path, value in _walk(obj, shape, ())
        if path and path not in _SERVER and path[:2] != ("f:metadata", "f:managedFields")
    }


def _walk(value: Any, shape: Shape, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and not shape.atomic:
        if not value:
            yield path, None
        for key, item in value.items():
            yield from _walk(item, shape.child(key), (*path, f"f:{key}"))
    elif isinstance(value, list) and shape.list_type == "map":
        for item in value:
            here = (*path, key_of_item(item, shape))
            yield here, None
            yield from _walk(item, shape.item, here)
    elif isinstance(value, list) and shape.list_type == "set":
        for item in value:
            yield (*path, "v:" + msgspec.json.encode(item).decode()), item
    else:
        yield path, value


def key_of_item(item: Any, shape: Shape) -> str:
    identity = shape.identity(item) or ()
    named = {k: v for k, v in zip(shape.keys, identity, strict=False) if v is not None}
    return "k:" + msgspec.json.encode(dict(sorted(named.items()))).decode()


def to_wire(fields: Iterable[Path]) -> Json:
    """The nested form of fieldsV1."""
    out: Json = {}
    for path in sorted(fields):
        node = out
        for part in path:
            node = node.setdefault(part, {})
        if path[-1].startswith("k:"):
            node["."] = {}
    return out


def from_wire(tree: Json) -> Fields:
    return frozenset(_members(tree, ()))


def _members(tree: Json, path: Path) -> Iterator[Path]:
    children = [(k, v) for k, v in tree.items() if k != "."]
    if path and (not children or "." in tree) and (not children or path[-1].startswith("k:")):
        yield path
    for key, sub in children:
        yield from _members(sub, (*path, key))


def shown(path: Path) -> str:
    """The path as messages write it: .spec.containers[name="a"].image"""
    out = ""
    for part in path:
        if part.startswith("f:"):
            out += f".{part[2:]}"
        elif part.startswith("k:"):
            keys: Json = msgspec.json.decode(part[2:])
            inner = ",".join(f"{k}={msgspec.json.encode(v).decode()}" for k, v in keys.items())
            out += f"[{inner}]"
        else:
            out += f"[={part[2:]}]"
    return out


def without(obj: Any, path: Path, shape: Shape) -> Any:
    """A copy of `obj` less the field at `path`; objects that become empty go too."""
    head, rest = path[0], path[1:]
    if isinstance(obj, dict) and head.startswith("f:"):
        name = head[2:]
        if name not in obj:
            return obj
        out: Json = dict(obj)
        left = without(out[name], rest, shape.child(name)) if rest else None
        if left is None or left == {} or left == []:
            del out[name]
        else:
            out[name] = left
        return out
    if isinstance(obj, list):
        kept: list[Any] = []
        for item in obj:
            here = (
                key_of_item(item, shape)
                if head.startswith("k:")
                else "v:" + msgspec.json.encode(item).decode()
            )
            if here != head:
                kept.append(item)
            elif rest:
                left = without(item, rest, shape.item)
                kept.append(left)
        return kept
    return obj

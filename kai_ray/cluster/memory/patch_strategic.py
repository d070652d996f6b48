"""Strategic-merge patch: objects merge by field, known lists by key, with `$` directives."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster.port import BadRequest

from .copying import clone
from .shapes import Shape

_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"
_PATCH = "$patch"
_RETAIN = "$retainKeys"

Json = dict[str, Any]


def strategic_merge(base: Any, patch: Json, shape: Shape, path: str = "") -> Json:
    """The patched object. Nothing is changed in place; unchanged parts are shared."""
    directive = patch.get(_PATCH)
    if directive == "replace":
        return _plain({k: v for k, v in patch.items() if k != _PATCH})
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise BadRequest(f"{path or 'patch'}: $patch {directive!r}: use merge, replace or delete")
    out: Json = dict(base) if isinstance(base, dict) else {}
    retain = patch.get(_RETAIN)
    if retain is not None:
        out = {k: v for k, v in out.items() if k in retain}
    for key, value in patch.items():
        if key.startswith((_ORDER, _DELETE)) or key in (_PATCH, _RETAIN):
            continue
        where = f"{path}.{key}" if path else key
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            out[key] = strategic_merge(out.get(key), value, shape.child(key), where)
        elif isinstance(value, list):
            out[key] = _merge_list(out.get(key), value, shape.child(key), where)
        else:
            out[key] = clone(value)
    for key, value in patch.items():
        if key.startswith(_DELETE):
            name = key[len(_DELETE) :]
            out[name] = [v for v in out.get(name) or () if v not in value]
        elif key.startswith(_ORDER):
            name = key[len(_ORDER) :]
            if isinstance(out.get(name), list):
                before = base.get(name) if isinstance(base, dict) else None
                out[name] = _ordered(out[name], value, before, shape.child(name))
    return out


def _plain(value: Any) -> Any:
    """A copy without directives and nulls."""
    if isinstance(value, dict):
        return {
            k: _plain(v) for k, v in value.items() if v is not None and not str(k).startswith("$")
        }
    if isinstance(value, list):
        return [_plain(v) for v in value if not (isinstance(v, dict) and v.get(_PATCH) == "delete")]
    return clone(value)


def _merge_list(base: Any, patch: list[Any], shape: Shape, path: str) -> list[Any]:
    old: list[Any] = base if isinstance(base, list) else []
    if shape.list_type == "set":
        return _ordered([*old, *(v for v in patch if v not in old)], patch, old, shape)
    if shape.list_type != "map":
        return _plain(patch)
    key = shape.merge_key
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" for item in patch):
        return _plain([item for item in patch if _PATCH not in item])
    out = list(old)
    for item in patch:
        if not isinstance(item, dict):
            raise BadRequest(f"{path}: its items are objects")
        if key not in item:
            raise BadRequest(f"{path}: an item does not contain the merge key {key!r}")
        at = [i for i, was in enumerate(out) if _same(was, item, shape)]
        if item.get(_PATCH) == "delete":
            out = [was for i, was in enumerate(out) if i not in at]
        elif at:
            out[at[0]] = strategic_merge(out[at[0]], item, shape.item, f"{path}[{item[key]}]")
        else:
            out.append(_plain(item))
    return _ordered(out, patch, old, shape)


def _same(was: Any, item: Json, shape: Shape) -> bool:
    """Items are told apart by the merge key, and by further keys where the patch gives them."""
    if not isinstance(was, dict):
        return False
    defaults = dict(shape.key_defaults)
    return all(was.get(k, defaults.get(k)) == item[k] for k in shape.keys if k in item)


def _ordered(items: list[Any], order: list[Any], before: Any, shape: Shape) -> list[Any]:
    """Items in the wanted order, merged with those that it does not name.

    An item that was there before keeps its place among such; all others come as early as the wanted
    order lets them, so new items stand in front (as an API server does it).
    """

    def identity(item: Any) -> Any:
        key = item.get(shape.merge_key) if isinstance(item, dict) else item
        return key if isinstance(key, str | int | float) else repr(key)

    wanted = {identity(v): i for i, v in enumerate(order)}
    place = {identity(v): i for i, v in enumerate(before or ())}
    named = [v for v in items if identity(v) in wanted]
    named.sort(key=lambda item: wanted[identity(item)])
    others = [v for v in items if identity(v) not in wanted]
    others.sort(key=lambda item: place.get(identity(item), len(place)))
    out: list[Any] = []
    while named and others:
        left, right = place.get(identity(others[0])), place.get(identity(named[0]))
        first = others if left is not None and right is not None and left < right else named
        out.append(first.pop(0))
    return [*out, *named, *others]

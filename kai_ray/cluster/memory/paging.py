"""Pages of a list that show one moment, however long the reader takes between them."""

from __future__ import annotations

import base64
from bisect import bisect_right

import msgspec

from kai_ray.cluster.port import BadRequest, Key, Object
from kai_ray.cluster.selectors import Matcher

from .state import State, Table


def page(
    state: State,
    table: Table,
    namespace: str | None,
    match: Matcher | None,
    limit: int,
    token: str,
) -> tuple[list[Object], int, str]:
    """(objects, version, token of the next page). Raises Gone if the list is too old to go on."""
    version, after = state.version, None
    objects, keys = table.objects, table.keys(namespace)
    if token:
        version, after = _read_token(token)
        objects, keys = _as_of(table, version, namespace)
    found: list[Object] = []
    last: Key | None = None
    start = 0 if after is None else bisect_right(keys, after)
    for i in range(start, len(keys)):
        key = keys[i]
        obj = objects[key]
        if match is not None and not match(obj):
            continue
        if limit and last is not None and len(found) >= limit:
            return found, version, _write_token(version, last)
        found.append(obj)
        last = key
    return found, version, ""


def _as_of(
    table: Table, version: int, namespace: str | None
) -> tuple[dict[Key, Object], list[Key]]:
    """Objects and keys as they were at an earlier version."""
    then = table.at(version)
    keys = table.keys(namespace)
    if not then:
        return table.objects, keys
    objects = {**table.objects, **{k: v for k, v in then.items() if v is not None}}
    added = {k for k, v in then.items() if v is not None and namespace in (None, k.namespace)}
    absent = {k for k, v in then.items() if v is None}
    return objects, sorted(added.union(keys) - absent)


def _write_token(version: int, last: Key) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([version, *last])).decode()


def _read_token(token: str) -> tuple[int, Key]:
    try:
        version, namespace, name = msgspec.json.decode(
            base64.urlsafe_b64decode(token), type=tuple[int, str, str]
        )
    except (ValueError, msgspec.MsgspecError):
        raise BadRequest("the continue token is not one of ours: list again without it") from None
    return version, Key(namespace, name)

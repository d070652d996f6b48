"""One OpenAPI v3 document for each group and version, made when asked for, kept while it holds."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from kai_ray.cluster.memory import Registry, Served
from kai_ray.cluster.port import Object
from kai_ray.cluster.rest.version import VERSION

from . import builtin
from .builtin import DELETE_OPTIONS, LIST_META, OBJECT_META, STATUS, ref

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"


@dataclass(slots=True)
class _Entry:
    served: list[Served]
    digest: str
    body: bytes = b""


class Documents:
    """The documents of what a registry serves."""

    def __init__(self, kinds: Registry) -> None:
        self._kinds = kinds
        self._entries: dict[str, _Entry] = {}
        self._schemas: dict[tuple[str, str], tuple[Served, Object, dict[str, Object]]] = {}

    def index(self) -> Object:
        """The answer to /openapi/v3: where each group and version is described."""
        return {
            "paths": {
                path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={entry.digest}"}
                for path, entry in self._current().items()
            }
        }

    def document(self, path: str) -> tuple[bytes, str] | None:
        """The JSON for "api/v1" or "apis/GROUP/VERSION", and its hash; None if not served."""
        entry = self._current().get(path)
        if entry is None:
            return None
        if not entry.body:
            entry.body = msgspec.json.encode(document(path, entry.served))
        return entry.body, entry.digest

    def schema(self, served: Served) -> tuple[Object, dict[str, Object]]:
        """The schema of a kind, and the components that it refers to."""
        key = (served.resource.api_version, served.resource.kind)
        known = self._schemas.get(key)
        if known is None or known[0] is not served:
            found, name = components(served)
            known = self._schemas[key] = (served, found[name], found)
        return known[1], known[2]

    def every(self) -> dict[str, list[Served]]:
        """What is served, by path of its group and version."""
        return {path: entry.served for path, entry in self._current().items()}

    def _current(self) -> dict[str, _Entry]:
        found: dict[str, list[Served]] = {}
        for served in self._kinds:
            api = served.resource.api_version
            found.setdefault(f"apis/{api}" if "/" in api else f"api/{api}", []).append(served)
        entries: dict[str, _Entry] = {}
        for path in sorted(found):
            known = self._entries.get(path)
            # Entries of the registry are replaced, never edited: identity tells a change.
            if known is None or not _same(known.served, found[path]):
                known = _Entry(found[path], _digest(found[path]))
            entries[path] = known
        self._entries = entries
        return entries


def _same(one: list[Served], other: list[Served]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _digest(served: list[Served]) -> str:
    """Changes when the document would."""
    facts = [(s.resource, s.status, s.builtin, s.openapi) for s in served]
    return hashlib.sha256(msgspec.json.encode([VERSION, facts])).hexdigest().upper()


def document(path: str, served: list[Served]) -> Object:
    paths: Object = {}
    found: dict[str, Object] = builtin.reachable({STATUS, DELETE_OPTIONS, LIST_META})
    for kind in served:
        own, name = components(kind)
        found |= own
        paths |= _paths(f"/{path}", kind, name)
    return {
        "openapi": "3.0.0",
        "info": {"title": "kai-ray", "version": VERSION},
        "paths": paths,
        "components": {"schemas": dict(sorted(found.items()))},
    }


def components(served: Served) -> tuple[dict[str, Object], str]:
    """The schemas of a kind, its list and all they refer to; and the name of the kind's own."""
    res, name = served.resource, _name(served)
    if served.builtin:
        found = builtin.reachable({name, LIST_META})
        own = copy.deepcopy(found[name])
    else:
        found = builtin.reachable({OBJECT_META, LIST_META})
        own: Object = {"type": "object"}
        own.update(copy.deepcopy(served.openapi))
        properties = own.setdefault("properties", {})
        common = builtin.schema(f"{builtin.PREFIX}v1.Pod").get("properties", {})
        for field in ("apiVersion", "kind"):
            if not (properties.get(field) or {}).get("description"):
                properties[field] = common.get(field) or {"type": "string"}
        properties["metadata"] = {"allOf": [ref(OBJECT_META)], "default": {}}
    own["x-kubernetes-group-version-kind"] = [_gvk(served)]
    many: Object = {
        "type": "object",
        "description": f"A list of {res.kind} objects.",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [ref(LIST_META)], "default": {}},
            "items": {"type": "array", "items": ref(name)},
        },
        "x-kubernetes-group-version-kind": [_gvk(served) | {"kind": f"{res.kind}List"}],
    }
    return found | {name: own, f"{name}List": many}, name


def _name(served: Served) -> str:
    res = served.resource
    if served.builtin and (known := builtin.component_of(res)):
        return known
    group = ".".join(reversed(res.group.split("."))) if res.group else "io.k8s.api"
    return f"{group}.{res.version}.{res.kind}"


def _gvk(served: Served) -> Object:
    res = served.resource
    return {"group": res.group, "version": res.version, "kind": res.kind}


def _paths(base: str, served: Served, name: str) -> Object:
    """The paths of a kind, with the operations and parameters that clients look for."""
    scope = f"{base}/namespaces/{{namespace}}" if served.resource.namespaced else base
    where = [_in_path("namespace")] if served.resource.namespaced else []
    one = f"{scope}/{served.resource.plural}/{{name}}"
    found: Object = {
        f"{scope}/{served.resource.plural}": {
            "parameters": where,
            "get": _operation(served, "list", f"{name}List", _LIST_QUERY),
            "post": _operation(served, "post", name, _WRITE_QUERY, body=name),
            "delete": _operation(served, "deletecollection", STATUS, _LIST_QUERY),
        },
        one: _item(served, name, where, delete=True),
    }
    if served.resource.namespaced:
        found[f"{base}/{served.resource.plural}"] = {
            "get": _operation(served, "list", f"{name}List", _LIST_QUERY)
        }
    if served.status:
        found[f"{one}/status"] = _item(served, name, where, delete=False)
    return found


def _item(served: Served, name: str, where: list[Object], *, delete: bool) -> Object:
    operations: Object = {
        "parameters": [_in_path("name"), *where],
        "get": _operation(served, "get", name, []),
        "put": _operation(served, "put", name, _WRITE_QUERY, body=name),
        "patch": _operation(served, "patch", name, [*_WRITE_QUERY, _query("force", "boolean")]),
    }
    media = [JSON_PATCH, MERGE, APPLY] + ([STRATEGIC] if served.builtin else [])
    patch_schema: Object = {"type": "object", "description": "A patch of the object."}
    operations["patch"]["requestBody"] = {
        "required": True,
        "content": {kind_of_patch: {"schema": patch_schema} for kind_of_patch in media},
    }
    if delete:
        operations["delete"] = _operation(served, "delete", STATUS, [], body=DELETE_OPTIONS)
    return operations


def _operation(
    served: Served, action: str, answer: str, query: list[Object], body: str = ""
) -> Object:
    made: Object = {
        "operationId": f"{action}{served.resource.version}{served.resource.kind}",
        "parameters": query,
        "responses": {
            "200": {
                "description": "OK",
                "content": {"application/json": {"schema": ref(answer)}},
            }
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(served),
    }
    if body:
        made["requestBody"] = {"content": {"*/*": {"schema": ref(body)}}}
    return made


def _in_path(name: str) -> Object:
    return {"name": name, "in": "path", "required": True, "schema": _TEXT}


def _query(name: str, kind: str = "string") -> Object:
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


_TEXT: Any = {"type": "string", "uniqueItems": True}
_LIST_QUERY = [
    _query("labelSelector"),
    _query("fieldSelector"),
    _query("limit", "integer"),
    _query("continue"),
    _query("resourceVersion"),
    _query("resourceVersionMatch"),
    _query("watch", "boolean"),
    _query("allowWatchBookmarks", "boolean"),
    _query("sendInitialEvents", "boolean"),
    _query("timeoutSeconds", "integer"),
]
_WRITE_QUERY = [_query("dryRun"), _query("fieldManager"), _query("fieldValidation")]

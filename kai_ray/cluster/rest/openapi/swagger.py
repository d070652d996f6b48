"""OpenAPI v2, for older clients: the v3 documents in one, in the older words."""

from __future__ import annotations

from typing import Any

import msgspec

from kai_ray.cluster.port import Object
from kai_ray.cluster.rest.version import VERSION

from .document import Documents, document


def answer(documents: Documents, accept: str) -> tuple[bytes, str]:
    """The document and its media type."""
    return msgspec.json.encode(swagger(documents)), "application/json"


def swagger(documents: Documents) -> Object:
    definitions: dict[str, Object] = {}
    paths: Object = {}
    for path, served in documents.every().items():
        made = document(path, served)
        definitions |= made["components"]["schemas"]
        paths |= {where: _path(item) for where, item in made["paths"].items()}
    return {
        "swagger": "2.0",
        "info": {"title": "kai-ray", "version": VERSION},
        "paths": dict(sorted(paths.items())),
        "definitions": {name: _schema(node) for name, node in sorted(definitions.items())},
    }


def _schema(node: Any) -> Any:
    """A v3 schema in v2's words: other references, no oneOf, no nullable."""
    if isinstance(node, list):
        return [_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    if list(node) == ["$ref"]:
        return {"$ref": node["$ref"].replace("#/components/schemas/", "#/definitions/")}
    wrapped = node.get("allOf") or []
    if len(wrapped) == 1 and "$ref" in wrapped[0] and "type" not in node:
        rest = {k: v for k, v in node.items() if k not in ("allOf", "default")}
        return rest | _schema(wrapped[0])
    skip = ("oneOf", "anyOf", "allOf", "not", "nullable", "default")
    made = {key: _schema(value) for key, value in node.items() if key not in skip}
    if node.get("x-kubernetes-int-or-string"):
        made |= {"type": "string", "format": "int-or-string"}
    return made


def _path(item: Object) -> Object:
    made: Object = {}
    for method, operation in item.items():
        if method == "parameters":
            made[method] = [_parameter(p) for p in operation]
            continue
        body = (operation.get("requestBody") or {}).get("content") or {}
        parameters = [_parameter(p) for p in operation["parameters"]]
        if body:
            schema = next(iter(body.values()))["schema"]
            parameters.append({"name": "body", "in": "body", "schema": _schema(schema)})
        made[method] = {
            "consumes": list(body) or ["*/*"],
            "produces": ["application/json"],
            "operationId": operation["operationId"],
            "parameters": parameters,
            "responses": {
                code: {
                    "description": answer["description"],
                    "schema": _schema(answer["content"]["application/json"]["schema"]),
                }
                for code, answer in operation["responses"].items()
            },
            "x-kubernetes-action": operation["x-kubernetes-action"],
            "x-kubernetes-group-version-kind": operation["x-kubernetes-group-version-kind"],
        }
    return made


def _parameter(parameter: Object) -> Object:
    made = {key: value for key, value in parameter.items() if key != "schema"}
    return made | {"type": parameter["schema"]["type"], "uniqueItems": True}

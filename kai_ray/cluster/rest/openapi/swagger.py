"""OpenAPI v2, for older clients: the v3 documents in one, in the older words."""

from __future__ import annotations

import msgspec

from kai_ray.cluster.port import Object
from kai_ray.cluster.rest.version import VERSION

from . import gnostic
from .document import Documents, document

#: Old clients write the media type in either of two ways.
_PROTOBUF = (gnostic.MEDIA_TYPE, gnostic.MEDIA_TYPE.replace("spec.v2.v1.0", "spec.v2@v1.0"))
_NOT_IN_V2 = ("oneOf", "anyOf", "allOf", "not", "nullable", "default")


def answer(documents: Documents, accept: str) -> tuple[bytes, str]:
    """The document in the first form that the client takes, and its media type."""
    made = swagger(documents)
    for clause in accept.split(","):
        media = clause.split(";")[0].strip()
        if media in _PROTOBUF:
            return gnostic.encode(made), gnostic.MEDIA_TYPE  # the "@" is no legal answer
        if media in ("", "application/json", "application/*", "*/*"):
            break
    return msgspec.json.encode(made), "application/json"


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


def _schema(node: Object) -> Object:
    """A v3 schema in v2's words: other references, no oneOf, no nullable."""
    if isinstance(node.get("$ref"), str):
        return {"$ref": node["$ref"].replace("#/components/schemas/", "#/definitions/")}
    wrapped = node.get("allOf") or []
    if len(wrapped) == 1 and "$ref" in wrapped[0] and "type" not in node:
        rest = {k: v for k, v in node.items() if k not in ("allOf", "default")}
        return rest | _schema(wrapped[0])
    made: Object = {}
    for key, value in node.items():
        if key == "properties":
            made[key] = {name: _schema(sub) for name, sub in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            made[key] = _schema(value)
        elif key not in _NOT_IN_V2:
            made[key] = value
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

"""OpenAPI v2 in the protobuf form that kubectl before 1.29 insists on (gnostic's OpenAPIv2.proto).

Only what our own documents contain is written; numbers are the fields of that proto.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kai_ray.cluster.port import Object

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_PATH_ITEM = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
_SCHEMA_TEXT = {"$ref": 1, "format": 2, "description": 4, "pattern": 12}
_SCHEMA_INTEGER = {
    "maxLength": 10,
    "minLength": 11,
    "maxItems": 13,
    "minItems": 14,
    "maxProperties": 17,
    "minProperties": 18,
}


def encode(document: Object) -> bytes:
    """The bytes of a v2 document as `swagger.swagger` makes it."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(
        _sub(2, _text(1, name) + _sub(2, _path_item(item)))
        for name, item in document["paths"].items()
    )
    definitions = _named(1, document["definitions"])
    return _text(1, document["swagger"]) + _sub(2, info) + _sub(8, paths) + _sub(9, definitions)


def _path_item(item: Object) -> bytes:
    made = b"".join(
        _sub(_PATH_ITEM[method], _operation(operation))
        for method, operation in item.items()
        if method in _PATH_ITEM
    )
    return made + b"".join(_parameter(9, p) for p in item.get("parameters", []))


def _operation(operation: Object) -> bytes:
    made = _text(5, operation["operationId"])
    made += b"".join(_text(6, media) for media in operation["produces"])
    made += b"".join(_text(7, media) for media in operation["consumes"])
    made += b"".join(_parameter(8, p) for p in operation["parameters"])
    answers = b""
    for code, answer in operation["responses"].items():
        schema = _sub(2, _sub(1, _schema(answer["schema"])))
        response = _text(1, answer["description"]) + schema
        answers += _sub(1, _text(1, code) + _sub(2, _sub(1, response)))
    return made + _sub(9, answers) + _extensions(13, operation)


def _parameter(number: int, parameter: Object) -> bytes:
    required = _integer(4 if parameter["in"] == "body" else 1, bool(parameter.get("required")))
    if parameter["in"] == "body":
        body = _text(2, parameter["name"]) + _text(3, "body") + required
        return _sub(number, _sub(1, _sub(1, body + _sub(5, _schema(parameter["schema"])))))
    in_path = parameter["in"] == "path"
    made = required + _text(2, parameter["in"]) + _text(4, parameter["name"])
    made += _text(5 if in_path else 6, parameter["type"]) + _integer(19 if in_path else 20, True)
    return _sub(number, _sub(1, _sub(2, _sub(4 if in_path else 3, made))))


def _schema(schema: Object) -> bytes:
    made = b"".join(_text(n, schema[key]) for key, n in _SCHEMA_TEXT.items() if key in schema)
    made += b"".join(
        _integer(n, schema[key]) for key, n in _SCHEMA_INTEGER.items() if key in schema
    )
    made += b"".join(_text(19, name) for name in schema.get("required", []))
    made += b"".join(_sub(20, _any(value)) for value in schema.get("enum", []))
    extra = schema.get("additionalProperties")
    if isinstance(extra, bool):
        made += _sub(21, _integer(2, extra))
    elif extra is not None:
        made += _sub(21, _sub(1, _schema(extra)))
    if "type" in schema:
        made += _sub(22, _text(1, schema["type"]))
    if "items" in schema:
        made += _sub(23, _sub(1, _schema(schema["items"])))
    if "properties" in schema:
        made += _sub(25, _named(1, schema["properties"]))
    return made + _extensions(31, schema)


def _named(number: int, schemas: dict[str, Object]) -> bytes:
    return b"".join(
        _sub(number, _text(1, name) + _sub(2, _schema(schema))) for name, schema in schemas.items()
    )


def _extensions(number: int, node: Object) -> bytes:
    return b"".join(
        _sub(number, _text(1, key) + _sub(2, _any(value)))
        for key, value in node.items()
        if key.startswith("x-")
    )


def _any(value: Any) -> bytes:
    return _text(2, msgspec.json.encode(value).decode())  # JSON is YAML


def _text(number: int, text: str) -> bytes:
    return _sub(number, str(text).encode())


def _sub(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(int(value)) if value else b""


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)

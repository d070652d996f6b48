"""The OpenAPI document, made of the table of operations and the shapes."""

from __future__ import annotations

import inspect
from importlib import metadata
from typing import Any

import msgspec

from kai_ray.console import shapes
from kai_ray.console.operations import OPERATIONS, PREFIX, Operation

Json = dict[str, Any]
_REF = "#/components/schemas/{name}"


def document() -> Json:
    """OpenAPI 3.1."""
    types = [shapes.Session, shapes.Refusal]
    for operation in OPERATIONS:
        types += [t for t in (operation.answer, operation.body) if t is not None]
    made, components = msgspec.json.schema_components(types, ref_template=_REF)
    schemas = {str(kind): schema for kind, schema in zip(types, made, strict=True)}
    paths: Json = {
        f"{PREFIX}/session": {"get": _session(schemas)},
        f"{PREFIX}/live": {"get": _live()},
    }
    for operation in OPERATIONS:
        path = paths.setdefault(PREFIX + operation.path, {})
        path[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kai-ray console",
            "version": metadata.version("kai-ray"),
            "description": inspect.cleandoc(shapes.__doc__ or ""),
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation, schemas: Json) -> Json:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ]
    context = {
        "name": "context",
        "in": "query",
        "schema": {"type": "string"},
        "description": "Which cluster; the home one if not said.",
    }
    parameters.append(context)
    for word in operation.words:
        schema = {"type": word.kind}
        parameters.append(
            {"name": word.name, "in": "query", "schema": schema, "description": word.text}
        )
    made: Json = {
        "summary": operation.summary,
        "operationId": operation.run.__module__.rpartition(".")[2] + "_" + operation.run.__name__,
        "description": " ".join((operation.run.__doc__ or "").split()),
        "parameters": parameters,
        "responses": _answers(operation, schemas),
    }
    if operation.body is not None:
        guard = {"name": "X-Kai-Request", "in": "header", "required": True}
        made["parameters"].append({**guard, "schema": {"type": "string", "enum": ["1"]}})
        content = {"application/json": {"schema": schemas[str(operation.body)]}}
        made["requestBody"] = {"required": True, "content": content}
    return made


def _answers(operation: Operation, schemas: Json) -> Json:
    kind = "text/plain" if operation.answer is str else "application/json"
    return {
        "200": {
            "description": "the answer",
            "content": {kind: {"schema": schemas[str(operation.answer)]}},
        },
        "default": {
            "description": "a refusal",
            "content": {"application/json": {"schema": schemas[str(shapes.Refusal)]}},
        },
    }


def _session(schemas: Json) -> Json:
    content = {"application/json": {"schema": schemas[str(shapes.Session)]}}
    return {
        "summary": "Who is looking and what they may do; without a token, how to sign in",
        "operationId": "session",
        "security": [{}, {"token": []}],
        "responses": {"200": {"description": "the answer", "content": content}},
    }


def _live() -> Json:
    words = "events: hello, changed {topics}, cycle, job, state; a comment every 15 s of silence"
    return {
        "summary": "Live news as server-sent events",
        "operationId": "live",
        "parameters": [{"name": "context", "in": "query", "schema": {"type": "string"}}],
        "responses": {"200": {"description": words, "content": {"text/event-stream": {}}}},
    }

"""The OpenAPI document: complete, consistent, and true of what is answered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kai_ray.console.openapi import document
from kai_ray.console.operations import OPERATIONS

from .conftest import Client, World, world_of


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with world_of() as made:
        made.queue("vision", quota=8)
        made.job("depth", "vision")
        made.run(10)
        made.job("late", "vision", pods=2)
        made.run(10)
        yield made


def test_it_is_served_without_a_token(world: World) -> None:
    served = Client(world.port, "").get("/openapi.json")
    assert served == json.loads(msgspec.json.encode(document()))
    assert served["openapi"].startswith("3.1")


def test_every_reference_leads_somewhere() -> None:
    made = document()
    text = json.dumps(made)
    known = {f"#/components/schemas/{name}" for name in made["components"]["schemas"]}
    used = set(re.findall(r'"\$ref": "([^"]+)"', text))
    assert used and used <= known


def test_every_operation_is_named_once_and_described() -> None:
    made = document()
    operations = [one for path in made["paths"].values() for one in path.values()]
    names = [one["operationId"] for one in operations]
    assert len(set(names)) == len(names) == len(OPERATIONS) + 2  # session and live
    assert all(one["summary"] for one in operations)
    for path, methods in made["paths"].items():
        for one in methods.values():
            inside = {p["name"] for p in one.get("parameters", ()) if p["in"] == "path"}
            assert inside == set(re.findall(r"{(\w+)}", path))


def test_answers_are_of_the_shapes_that_it_says(world: World) -> None:
    node = world.get("/nodes")["nodes"][0]["name"]
    for operation in OPERATIONS:
        if operation.body is not None or operation.answer is str or "history" in operation.path:
            continue
        if "reports" in operation.path:
            continue
        name = {"/nodes/{name}": node, "/queues/{name}": "vision"}.get(operation.path, "late")
        names = {"namespace": "default", "kind": "Job", "name": name}
        answer = world.send("GET", f"/api/v1{operation.path.format_map(names)}")
        assert answer.status == 200, (operation.path, answer.body)
        strict: Any = msgspec.json.decode(answer.body, type=operation.answer)
        assert msgspec.json.decode(msgspec.json.encode(strict)) == answer.json

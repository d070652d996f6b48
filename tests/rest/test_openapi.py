"""What clients are told of the kinds is what the store does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.memory.kinds import Served, builtin_kinds
from kai_ray.cluster.memory.shapes import Shape, shape_of
from kai_ray.cluster.rest.openapi import builtin
from kai_ray.cluster.rest.openapi.document import Documents, document
from kai_ray.cluster.rest.strict import unknown_fields


@pytest.fixture(scope="module")
def documents() -> Documents:
    store = MemoryStore()
    install_defaults(store)
    return Documents(store.kinds)


@pytest.mark.parametrize("served", builtin_kinds(), ids=lambda s: s.resource.plural)
def test_every_builtin_kind_has_a_model(served: Served) -> None:
    name = builtin.component_of(served.resource)
    assert name is not None
    schema = builtin.schema(name)
    assert {"apiVersion", "kind", "metadata"} <= set(schema["properties"])


def walk(schema: dict[str, Any], components: dict[str, Any], shape: Shape, path: str) -> Iterator:
    """Where the schema and the store's shape differ on how a list merges."""
    target = schema.get("$ref") or (schema.get("allOf") or [{}])[0].get("$ref")
    if target:
        yield from walk(components[target.rpartition("/")[2]], components, shape, path)
        return
    for name, sub in (schema.get("properties") or {}).items():
        where = f"{path}.{name}"
        if where.count(".") > 9 or name == "managedFields":
            continue
        child = shape.child(name)
        if sub.get("type") == "array":
            told = sub.get("x-kubernetes-patch-merge-key", "")
            if (child.merge_key if child.list_type == "map" else "") != told:
                yield where, told, child.merge_key
            if told:  # items of other lists are replaced with their list
                yield from walk(sub["items"], components, child.item, where + "[]")
        elif name != "volumeClaimTemplate":  # a template's claim has no owners
            yield from walk(sub, components, child, where)


@pytest.mark.parametrize("served", builtin_kinds(), ids=lambda s: s.resource.plural)
def test_clients_merge_lists_by_the_keys_that_the_store_merges_by(
    served: Served, documents: Documents
) -> None:
    schema, components = documents.schema(served)
    differ = list(walk(schema, components, shape_of(served), served.resource.kind))
    assert not differ, f"(field, told to clients, used by the store): {differ}"


def test_references_resolve_in_every_document(documents: Documents) -> None:
    for path, served in documents.every().items():
        made = document(path, served)
        known = made["components"]["schemas"]
        assert set(builtin.references(made)) <= set(known), path
        for where, item in made["paths"].items():
            if "patch" in item:
                names = {p["name"] for p in item["patch"]["parameters"]}
                # kubectl looks for exactly these to know that the server checks fields.
                assert {"fieldValidation", "dryRun", "fieldManager"} <= names, where


def test_unknown_fields_are_found_at_any_depth(documents: Documents) -> None:
    pods = next(s for s in builtin_kinds() if s.resource.plural == "pods")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "lables": {}},
        "spec": {
            "nodeSelector": {"anything": "goes"},
            "containers": [
                {"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}, "evn": []}
            ],
            "volumes": [{"name": "v", "emptyDir": {"size": 1}}],
        },
    }
    assert sorted(unknown_fields(documents, pods, pod)) == [
        "metadata.lables",
        "spec.containers[0].evn",
        "spec.volumes[0].emptyDir.size",
    ]


def test_a_kind_without_a_model_is_an_open_object() -> None:
    assert builtin.schema("io.k8s.api.v1.Unicorn") == {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }

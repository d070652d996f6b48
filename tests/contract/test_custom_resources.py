from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import ApiError, BadRequest, Invalid, NotFound, Object, Port, Resource
from tests.contract.objects import eventually, is_gone

_run = f"{time.time_ns() % 10**9:x}"
_count = (f"{_run}n{i}" for i in itertools.count())


def definition(plural: str, schema: Object, **version: Any) -> Object:
    return {
        "metadata": {"name": f"{plural}.stories.example.com"},
        "spec": {
            "group": "stories.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural[:-1].capitalize()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    **version,
                }
            ],
        },
    }


Define = Callable[..., Resource]


@pytest.fixture
def define(port: Port) -> Define:
    """Installs a kind whose spec has this schema."""

    def make(spec: Object, **version: Any) -> Resource:
        plural = f"kind{next(_count)}s"
        schema = {
            "type": "object",
            "properties": {
                "spec": spec,
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
        made = port.create(r.CRD, definition(plural, schema, **version))
        resource = Resource("stories.example.com", "v1", plural, made["spec"]["names"]["kind"])
        assert eventually(lambda: _is_served(port, resource))
        return resource

    return make


def _is_served(port: Port, resource: Resource) -> bool:
    try:
        port.list(resource, "default")
    except NotFound:
        return False
    return True


def thing(ns: str, name: str = "t", **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": ns}, "spec": spec}


def obj(required: tuple[str, ...] = (), **properties: Object) -> Object:
    schema: Object = {"type": "object", "properties": properties}
    return schema | ({"required": list(required)} if required else {})


def test_a_definition_says_when_it_is_served(port: Port, define: Define) -> None:
    resource = define(obj())
    crd = port.get(r.CRD, f"{resource.plural}.stories.example.com")
    conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    names = crd["status"]["acceptedNames"]
    assert (names["singular"], names["listKind"]) == (
        resource.kind.lower(),
        f"{resource.kind}List",
    )


def test_an_unknown_kind_is_not_found(port: Port, ns: str) -> None:
    unknown = Resource("nowhere.example.com", "v1", "ghosts", "Ghost")
    with pytest.raises(NotFound):
        port.create(unknown, thing(ns))


def test_defaults_are_filled_in_however_deep(port: Port, ns: str, define: Define) -> None:
    inner = obj(retries={"type": "integer", "default": 3})
    kind = define(
        obj(
            mode={"type": "string", "default": "fast"},
            inner={**inner, "default": {}},
            steps={"type": "array", "items": obj(size={"type": "integer", "default": 1})},
        )
    )
    made = port.create(kind, thing(ns, steps=[{}, {"size": 5}]))
    assert made["spec"] == {
        "mode": "fast",
        "inner": {"retries": 3},
        "steps": [{"size": 1}, {"size": 5}],
    }


def test_unknown_fields_are_pruned_unless_they_are_kept(
    port: Port, ns: str, define: Define
) -> None:
    keep = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    kind = define(
        obj(a={"type": "string"}, kept=keep, labels={
            "type": "object", "additionalProperties": {"type": "string"}})
    )  # fmt: skip
    made = port.create(
        kind,
        thing(ns, a="1", typo="2", kept={"x": {"y": 1}}, labels={"any": "thing"}),
    )
    assert made["spec"] == {"a": "1", "kept": {"x": {"y": 1}}, "labels": {"any": "thing"}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string"}, ["", "x"], [1, True, {}, []]),
        ({"type": "integer"}, [0, -1, 3.0], ["1", 1.5, True]),
        ({"type": "number"}, [0, 1.5], ["1", False]),
        ({"type": "boolean"}, [True], ["true", 0]),
        ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 3], [0, 4]),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, [0.1], [0, -1]),
        ({"type": "integer", "format": "int32"}, [2**31 - 1], [2**31]),
        ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c", ""]),
        ({"type": "string", "pattern": "^[a-z]+$"}, ["abc"], ["Abc", ""]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab"], ["a", "abcd"]),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 2}, [[1, 2]], [[1, 2, 3]]),
        ({"type": "array", "items": {"type": "integer"}}, [[1]], [["1"]]),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            [["a", "b"]],
            [["a", "a"]],
        ),
        (
            {
                "type": "array",
                "items": obj(("name",), name={"type": "string"}),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            [[{"name": "a"}, {"name": "b"}]],
            [[{"name": "a"}, {"name": "a"}], [{}]],
        ),
        ({"x-kubernetes-int-or-string": True}, [1, "50%"], [1.5, True, []]),
        (obj(("must",), must={"type": "string"}), [{"must": "x"}], [{}]),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            [{"a": 1}],
            [{}, {"a": 1, "b": 2}],
        ),
    ],
    ids=lambda v: str(v)[:50] if isinstance(v, dict) else "",
)
def test_values_are_checked_by_the_schema(
    port: Port, ns: str, define: Define, schema: Object, good: list[Any], bad: list[Any]
) -> None:
    kind = define(obj(field=schema))
    for i, value in enumerate(good):
        port.create(kind, thing(ns, f"good-{i}", field=value))
    for value in bad:
        with pytest.raises(Invalid) as refused:
            port.create(kind, thing(ns, "bad", field=value))
        causes = refused.value.details["causes"]
        assert any("field" in c["field"] + c["message"] for c in causes), causes


def test_updates_and_patches_are_checked_too(port: Port, ns: str, define: Define) -> None:
    kind = define(obj(n={"type": "integer", "maximum": 3}))
    made = port.create(kind, thing(ns, n=1))
    with pytest.raises(Invalid, match=r"spec\.n"):
        port.update(kind, {**made, "spec": {"n": 4}})
    with pytest.raises(Invalid, match="resourceVersion"):
        port.update(kind, thing(ns, n=2))
    with pytest.raises(Invalid, match=r"spec\.n"):
        port.patch(kind, "t", {"spec": {"n": 5}}, ns)
    assert port.get(kind, "t", ns)["spec"] == {"n": 1}


def _rule(rule: str, message: str = "no", **more: Any) -> Object:
    return {"rule": rule, "message": message, **more}


def test_rules_compare_fields(port: Port, ns: str, define: Define) -> None:
    number = {"type": "integer"}
    kind = define(
        obj(low=number, high=number)
        | {"x-kubernetes-validations": [_rule("self.low <= self.high", "low is above high")]}
    )
    port.create(kind, thing(ns, low=1, high=2))
    with pytest.raises(Invalid, match="low is above high"):
        port.create(kind, thing(ns, "bad", low=3, high=2))


def test_rules_compare_with_what_was(port: Port, ns: str, define: Define) -> None:
    frozen = {"type": "string", "x-kubernetes-validations": [_rule("self == oldSelf", "frozen")]}
    kind = define(obj(id=frozen, free={"type": "string"}))
    port.create(kind, thing(ns, id="a"))
    port.patch(kind, "t", {"spec": {"free": "x"}}, ns)
    with pytest.raises(Invalid, match="frozen"):
        port.patch(kind, "t", {"spec": {"id": "b"}}, ns)


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("self.all(x, x.n > 0)", [{"n": 1}], [{"n": 1}, {"n": 0}]),
        ("self.exists_one(x, has(x.main) && x.main)", [{"main": True}, {}], [{}]),
        ("size(self) <= 1", [{}], [{}, {}]),
        ("self.map(x, x.n).exists(n, n in [1, 2])", [{"n": 2}], [{"n": 3}]),
        ("self.filter(x, has(x.s)).all(x, x.s.startsWith('a'))", [{"s": "ab"}, {}], [{"s": "b"}]),
    ],
)
def test_rules_look_into_lists(
    port: Port, ns: str, define: Define, rule: str, good: list[Object], bad: list[Object]
) -> None:
    item = obj(n={"type": "integer"}, main={"type": "boolean"}, s={"type": "string"})
    items = {
        "type": "array",
        "maxItems": 10,
        "items": item,
        "x-kubernetes-validations": [_rule(rule)],
    }
    kind = define(obj(items=items))
    port.create(kind, thing(ns, "good", items=good))
    with pytest.raises(Invalid, match="no"):
        port.create(kind, thing(ns, "bad", items=bad))


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("spec.scope", {"scope": "Everywhere"}),
        ("metadata.name", {"names": {"plural": "others", "kind": "Other"}}),
        ("spec.versions", {"versions": []}),
    ],
)
def test_a_definition_that_cannot_be_served_is_refused(
    port: Port, what: str, change: Object
) -> None:
    crd = definition(f"bad{next(_count)}s", obj())
    crd["spec"] |= change
    with pytest.raises(Invalid) as refused:
        port.create(r.CRD, crd)
    assert any(c["field"].startswith(what) for c in refused.value.details["causes"])


def test_a_rule_that_is_no_cel_is_refused(port: Port) -> None:
    schema = obj() | {"x-kubernetes-validations": [_rule("self ==")]}
    with pytest.raises(Invalid, match="rule"):
        port.create(r.CRD, definition(f"bad{next(_count)}s", schema))


def test_a_definition_takes_its_objects_along(port: Port, ns: str, define: Define) -> None:
    kind = define(obj())
    port.create(kind, thing(ns))
    port.delete(r.CRD, f"{kind.plural}.stories.example.com")
    name = f"{kind.plural}.stories.example.com"
    assert eventually(lambda: is_gone(port, r.CRD, name))
    assert eventually(lambda: not _is_served(port, kind))
    with pytest.raises(NotFound):
        port.get(kind, "t", ns)


def test_versions_of_a_kind_show_the_same_objects(port: Port, ns: str) -> None:
    plural = f"kind{next(_count)}s"
    schema = obj(spec=obj(a={"type": "string"}))
    crd = definition(plural, schema)
    crd["spec"]["versions"].append(
        {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}}
    )
    kind = port.create(r.CRD, crd)["spec"]["names"]["kind"]
    v1, v2 = (Resource("stories.example.com", v, plural, kind) for v in ("v1", "v2"))
    assert eventually(lambda: _is_served(port, v2))
    made = port.create(v2, thing(ns, a="1"))
    assert made["apiVersion"] == "stories.example.com/v2"
    old = port.get(v1, "t", ns)
    assert (old["apiVersion"], old["spec"]) == ("stories.example.com/v1", {"a": "1"})
    assert old["metadata"]["uid"] == made["metadata"]["uid"]


def test_an_object_of_another_kind_is_a_bad_request(port: Port, ns: str, define: Define) -> None:
    kind = define(obj())
    wrong = {"apiVersion": "v1", "kind": "Pod", **thing(ns)}
    with pytest.raises((BadRequest, ApiError)) as refused:
        port.create(kind, wrong)
    assert refused.value.code == 400


def test_scale_reads_the_paths_of_the_definition(port: Port, ns: str, define: Define) -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    kind = define(obj(size={"type": "integer"}), subresources={"status": {}, "scale": scale})
    port.create(kind, thing(ns, size=2))
    port.patch(kind, "t", {"spec": {"replicas": 4}}, ns, subresource="scale")
    assert port.get(kind, "t", ns)["spec"] == {"size": 4}

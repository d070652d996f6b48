from __future__ import annotations

from typing import Any

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import ApiError, BadRequest, Conflict, Invalid, Object, Port
from tests.contract.objects import config, pod


def _deployment(ns: str) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": ns, "labels": {"app": "web"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [
                        {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]},
                        {"name": "b", "image": "b:1"},
                    ],
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                },
            },
        },
    }


def _spec(obj: Object) -> dict[str, Any]:
    return obj["spec"]["template"]["spec"]


def _names(items: list[Object]) -> list[str]:
    return [i["name"] for i in items]


@pytest.mark.parametrize(
    ("operations", "data"),
    [
        ([{"op": "add", "path": "/data/new", "value": "1"}], {"a": "1", "b": "2", "new": "1"}),
        ([{"op": "remove", "path": "/data/a"}], {"b": "2"}),
        ([{"op": "replace", "path": "/data/a", "value": "9"}], {"a": "9", "b": "2"}),
        ([{"op": "move", "from": "/data/a", "path": "/data/c"}], {"b": "2", "c": "1"}),
        ([{"op": "copy", "from": "/data/a", "path": "/data/b"}], {"a": "1", "b": "1"}),
        (
            [
                {"op": "test", "path": "/data/a", "value": "1"},
                {"op": "add", "path": "/data", "value": {"only": "this"}},
            ],
            {"only": "this"},
        ),
    ],
    ids=lambda v: v[0]["op"] if isinstance(v, list) else "",
)
def test_json_patch_follows_its_operations(
    port: Port, ns: str, operations: list[Object], data: dict[str, str]
) -> None:
    port.create(r.CONFIG_MAP, config(ns, "m", a="1", b="2"))
    new = port.patch(r.CONFIG_MAP, "m", operations, ns, patch_type="json")
    assert new["data"] == data


def test_json_patch_reaches_into_lists_and_escaped_names(port: Port, ns: str) -> None:
    port.create(r.CONFIG_MAP, config(ns, "m", labels={"a.b/c": "1"}))
    port.patch(
        r.CONFIG_MAP,
        "m",
        [
            {"op": "replace", "path": "/metadata/labels/a.b~1c", "value": "2"},
            {"op": "add", "path": "/metadata/finalizers", "value": ["x.io/1", "x.io/3"]},
            {"op": "add", "path": "/metadata/finalizers/1", "value": "x.io/2"},
            {"op": "add", "path": "/metadata/finalizers/-", "value": "x.io/4"},
            {"op": "remove", "path": "/metadata/finalizers/0"},
        ],
        ns,
        patch_type="json",
    )
    meta = port.get(r.CONFIG_MAP, "m", ns)["metadata"]
    assert meta["labels"] == {"a.b/c": "2"}
    assert meta["finalizers"] == ["x.io/2", "x.io/3", "x.io/4"]
    port.patch(r.CONFIG_MAP, "m", {"metadata": {"finalizers": None}}, ns)


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/data/a", "value": "other"}],
        [{"op": "remove", "path": "/data/none"}],
        [{"op": "replace", "path": "/none/x", "value": "1"}],
        [{"op": "fly", "path": "/data/a"}],
        [{"op": "add", "path": "data", "value": {}}],
        {"op": "add"},
    ],
)
def test_a_json_patch_that_does_not_apply_changes_nothing(
    port: Port, ns: str, operations: Any
) -> None:
    port.create(r.CONFIG_MAP, config(ns, "m", a="1"))
    with pytest.raises(ApiError) as refused:
        port.patch(r.CONFIG_MAP, "m", operations, ns, patch_type="json")
    assert refused.value.code in (400, 422)
    assert port.get(r.CONFIG_MAP, "m", ns)["data"] == {"a": "1"}


def test_merge_patch_sets_and_null_removes(port: Port, ns: str) -> None:
    port.create(r.CONFIG_MAP, config(ns, "m", labels={"x": "1", "y": "2"}, a="1", b="2"))
    new = port.patch(
        r.CONFIG_MAP,
        "m",
        {"data": {"a": None, "c": "3"}, "metadata": {"labels": {"x": None}}},
        ns,
    )
    assert new["data"] == {"b": "2", "c": "3"}
    assert new["metadata"]["labels"] == {"y": "2"}


def test_merge_patch_replaces_lists_as_a_whole(port: Port, ns: str) -> None:
    port.create(r.DEPLOYMENT, _deployment(ns))
    only = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "c:1"}]}}}}
    new = port.patch(r.DEPLOYMENT, "web", only, ns)
    assert _names(_spec(new)["containers"]) == ["c"]


def _strategic(port: Port, ns: str, spec: Object) -> Object:
    patch = {"spec": {"template": {"spec": spec}}}
    return _spec(port.patch(r.DEPLOYMENT, "web", patch, ns, patch_type="strategic"))


def test_strategic_merge_finds_containers_by_name(port: Port, ns: str) -> None:
    port.create(r.DEPLOYMENT, _deployment(ns))
    spec = _strategic(
        port, ns, {"containers": [{"name": "b", "image": "b:2"}, {"name": "c", "image": "c:1"}]}
    )
    assert [(c["name"], c["image"]) for c in spec["containers"]] == [
        ("a", "a:1"),
        ("b", "b:2"),
        ("c", "c:1"),
    ]
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}]


def test_strategic_merge_merges_env_by_name_and_replaces_tolerations(port: Port, ns: str) -> None:
    port.create(r.DEPLOYMENT, _deployment(ns))
    spec = _strategic(
        port,
        ns,
        {
            "containers": [
                {"name": "a", "env": [{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}]}
            ],
            "tolerations": [{"key": "other", "operator": "Exists"}],
        },
    )
    assert spec["containers"][0]["env"] == [
        {"name": "X", "value": "2"},
        {"name": "Y", "value": "3"},
    ]
    assert spec["tolerations"] == [{"key": "other", "operator": "Exists"}]


def test_strategic_merge_directives_delete_replace_and_order(port: Port, ns: str) -> None:
    port.create(r.DEPLOYMENT, _deployment(ns))
    spec = _strategic(port, ns, {"containers": [{"name": "a", "$patch": "delete"}]})
    assert _names(spec["containers"]) == ["b"]
    spec = _strategic(
        port,
        ns,
        {
            "$setElementOrder/containers": [{"name": "z"}, {"name": "b"}],
            "containers": [{"name": "z", "image": "z:1"}],
        },
    )
    assert _names(spec["containers"]) == ["z", "b"]
    spec = _strategic(
        port, ns, {"containers": [{"$patch": "replace"}, {"name": "n", "image": "n:1"}]}
    )
    assert _names(spec["containers"]) == ["n"]


def test_strategic_merge_removes_from_lists_of_plain_values(port: Port, ns: str) -> None:
    obj = config(ns, "m")
    obj["metadata"]["finalizers"] = ["x.io/a", "x.io/b"]
    port.create(r.CONFIG_MAP, obj)
    new = port.patch(
        r.CONFIG_MAP,
        "m",
        {
            "metadata": {
                "$deleteFromPrimitiveList/finalizers": ["x.io/a"],
                "finalizers": ["x.io/c"],
            }
        },
        ns,
        patch_type="strategic",
    )
    assert new["metadata"]["finalizers"] == ["x.io/c", "x.io/b"], "what is new comes first"
    port.patch(r.CONFIG_MAP, "m", {"metadata": {"finalizers": None}}, ns)


def test_strategic_merge_finds_conditions_by_type(port: Port, ns: str) -> None:
    port.create(r.POD, pod(ns, "p"))
    for kind, value in (("Ready", "False"), ("Initialized", "True"), ("Ready", "True")):
        patch = {"status": {"conditions": [{"type": kind, "status": value}]}}
        port.patch(r.POD, "p", patch, ns, patch_type="strategic", subresource="status")
    found = port.get(r.POD, "p", ns)["status"]["conditions"]
    assert {c["type"]: c["status"] for c in found} == {"Ready": "True", "Initialized": "True"}


def test_strategic_merge_needs_the_merge_key(port: Port, ns: str) -> None:
    port.create(r.DEPLOYMENT, _deployment(ns))
    with pytest.raises(ApiError, match="name"):
        _strategic(port, ns, {"containers": [{"image": "x"}]})


def test_custom_resources_take_no_strategic_merge(port: Port, ns: str) -> None:
    port.create(r.POD_GROUP, {"metadata": {"name": "g", "namespace": ns}, "spec": {}})
    with pytest.raises(ApiError) as refused:
        port.patch(r.POD_GROUP, "g", {"spec": {"minMember": 1}}, ns, patch_type="strategic")
    assert refused.value.code == 415


def test_a_patch_cannot_rename(port: Port, ns: str) -> None:
    port.create(r.CONFIG_MAP, config(ns, "m"))
    with pytest.raises((BadRequest, Invalid)):
        port.patch(r.CONFIG_MAP, "m", {"metadata": {"name": "other"}}, ns)


# --- server-side apply ---------------------------------------------------------------------------


def test_a_patch_may_ask_for_the_version_and_the_object_that_were_seen(port: Port, ns: str) -> None:
    seen = port.create(r.CONFIG_MAP, config(ns, "m", a="1"))["metadata"]
    port.patch(r.CONFIG_MAP, "m", {"data": {"a": "2"}}, ns)
    stale = {"metadata": {"resourceVersion": seen["resourceVersion"]}, "data": {"a": "3"}}
    with pytest.raises(Conflict):
        port.patch(r.CONFIG_MAP, "m", stale, ns)
    now = port.get(r.CONFIG_MAP, "m", ns)
    assert now["data"] == {"a": "2"}
    fresh = {k: now["metadata"][k] for k in ("uid", "resourceVersion")}
    made = port.patch(r.CONFIG_MAP, "m", {"metadata": fresh, "data": {"a": "4"}}, ns)
    assert made["data"] == {"a": "4"}
    other = {"uid": "00000000-0000-0000-0000-000000000000"}
    with pytest.raises((Conflict, Invalid)):
        port.patch(r.CONFIG_MAP, "m", {"metadata": other, "data": {"a": "5"}}, ns)
    with pytest.raises(Conflict):
        seen = {**other, "resourceVersion": fresh["resourceVersion"]}
        port.patch(r.CONFIG_MAP, "m", {"metadata": seen, "data": {"a": "5"}}, ns)


def _apply(port: Port, obj: Object, manager: str, *, force: bool = False) -> Object:
    meta, kind = obj["metadata"], r.BY_KIND[obj["apiVersion"], obj["kind"]]
    return port.patch(
        kind,
        meta["name"],
        obj,
        meta["namespace"],
        patch_type="apply",
        field_manager=manager,
        force=force,
    )


def test_apply_creates_and_remembers_who_owns_what(port: Port, ns: str) -> None:
    made = _apply(port, config(ns, "m", a="1"), "alice")
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("alice", "Apply")
    assert entry["fieldsV1"]["f:data"] == {"f:a": {}}
    again = _apply(port, config(ns, "m", a="1"), "alice")
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_appliers_share_an_object_field_by_field(port: Port, ns: str) -> None:
    _apply(port, config(ns, "m", a="1"), "alice")
    both = _apply(port, config(ns, "m", b="2"), "bob")
    assert both["data"] == {"a": "1", "b": "2"}


def test_a_field_that_another_owns_is_a_conflict_unless_forced(port: Port, ns: str) -> None:
    _apply(port, config(ns, "m", a="1"), "alice")
    with pytest.raises(Conflict, match="alice") as refused:
        _apply(port, config(ns, "m", a="2"), "bob")
    assert refused.value.details["causes"][0]["field"] == ".data.a"
    assert _apply(port, config(ns, "m", a="2"), "bob", force=True)["data"] == {"a": "2"}
    with pytest.raises(Conflict, match="bob"):
        _apply(port, config(ns, "m", a="3"), "alice")


def test_appliers_that_agree_share_a_field(port: Port, ns: str) -> None:
    _apply(port, config(ns, "m", a="1"), "alice")
    _apply(port, config(ns, "m", a="1"), "bob")
    left = _apply(port, config(ns, "m"), "alice")
    assert left["data"] == {"a": "1"}, "bob still wants it"
    assert "a" not in (_apply(port, config(ns, "m"), "bob").get("data") or {})


def test_what_an_applier_leaves_out_goes(port: Port, ns: str) -> None:
    _apply(port, config(ns, "m", a="1", b="2"), "alice")
    assert _apply(port, config(ns, "m", b="2"), "alice")["data"] == {"b": "2"}


def test_an_update_takes_fields_over(port: Port, ns: str) -> None:
    _apply(port, config(ns, "m", a="1"), "alice")
    port.patch(r.CONFIG_MAP, "m", {"data": {"a": "2"}}, ns, field_manager="hand")
    with pytest.raises(Conflict, match="hand"):
        _apply(port, config(ns, "m", a="1"), "alice")


def test_what_was_there_before_the_first_apply_has_an_owner(port: Port, ns: str) -> None:
    port.create(r.CONFIG_MAP, config(ns, "m", a="1"))
    assert _apply(port, config(ns, "m", b="2"), "alice")["data"] == {"a": "1", "b": "2"}
    with pytest.raises(Conflict):
        _apply(port, config(ns, "m", a="9", b="2"), "alice")


def test_apply_owns_containers_by_name(port: Port, ns: str) -> None:
    mine = _deployment(ns)
    _apply(port, mine, "alice")
    theirs: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": ns},
        "spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s:1"}]}}},
    }
    new = _apply(port, theirs, "bob")
    assert _names(_spec(new)["containers"]) == ["a", "b", "side"]
    _spec(mine)["containers"] = _spec(mine)["containers"][:1]
    new = _apply(port, mine, "alice")
    assert _names(_spec(new)["containers"]) == ["a", "side"]


def test_apply_merges_lists_of_custom_resources_by_their_keys(port: Port, ns: str) -> None:
    def group(*names: str) -> Object:
        return {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": ns},
            "spec": {"subGroups": [{"name": n, "minMember": 1} for n in names]},
        }

    _apply(port, group("a", "b"), "alice")
    both = _apply(port, group("c"), "bob")
    assert _names(both["spec"]["subGroups"]) == ["a", "b", "c"]
    assert _names(_apply(port, group("b"), "alice")["spec"]["subGroups"]) == ["b", "c"]


def test_apply_to_status_leaves_the_spec(port: Port, ns: str) -> None:
    port.create(r.POD_GROUP, {"metadata": {"name": "g", "namespace": ns}, "spec": {"minMember": 2}})
    status = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "status": {"running": 1},
    }
    new = port.patch(
        r.POD_GROUP,
        "g",
        status,
        ns,
        patch_type="apply",
        subresource="status",
        field_manager="controller",
    )
    assert new["spec"] == {"minMember": 2}
    assert new["status"] == {"running": 1}


@pytest.mark.parametrize(
    "change", [{"kind": "Secret"}, {"apiVersion": "v9"}, {"metadata": {"name": "other"}}]
)
def test_an_apply_patch_must_say_what_it_is(port: Port, ns: str, change: Object) -> None:
    with pytest.raises(ApiError) as refused:
        port.patch(
            r.CONFIG_MAP,
            "m",
            config(ns, "m") | change,
            ns,
            patch_type="apply",
            field_manager="alice",
        )
    assert refused.value.code == 400

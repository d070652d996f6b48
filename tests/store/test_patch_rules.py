"""The patch forms as functions: the standards' own examples, and what must hold for any input."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kai_ray.cluster.memory import apply as ssa
from kai_ray.cluster.memory.copying import merge_patch
from kai_ray.cluster.memory.fieldsets import from_wire, leaves, shown, to_wire
from kai_ray.cluster.memory.patch_json import json_patch
from kai_ray.cluster.memory.patch_strategic import strategic_merge
from kai_ray.cluster.memory.shapes import META, Shape
from kai_ray.cluster.port import ApiError, Object

SHAPE = Shape(
    fields={
        "metadata": META,
        "list": Shape(list_type="map", keys=("name",)),
        "set": Shape(list_type="set"),
        "ports": Shape(
            list_type="map", keys=("port", "protocol"), key_defaults=(("protocol", "TCP"),)
        ),
        "whole": Shape(atomic=True),
    }
)


@pytest.mark.parametrize(
    ("base", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": 1}, {"a": {"bb": {"ccc": None}}}, {"e": 1, "a": {"bb": {}}}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ],
)
def test_merge_patch_by_rfc_7386(base: Any, patch: Any, result: Any) -> None:
    assert merge_patch(base, patch) == result


@pytest.mark.parametrize(
    ("base", "operations", "result"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "q"}], {"baz": "q", "foo": "bar"}),
        (
            {"foo": ["bar", "baz"]},
            [{"op": "add", "path": "/foo/1", "value": "q"}],
            {"foo": ["bar", "q", "baz"]},
        ),
        ({"foo": ["bar", "q"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar"]}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        (
            {"foo": ["all", "grass", "cows", "eat"]},
            [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
            {"foo": ["all", "cows", "eat", "grass"]},
        ),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": [1]}], {"foo": ["bar", [1]]}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"a": 1}, [{"op": "add", "path": "", "value": {"b": 2}}], {"b": 2}),
    ],
)  # fmt: skip
def test_json_patch_by_rfc_6902(base: Any, operations: Any, result: Any) -> None:
    before = repr(base)
    assert json_patch(base, operations) == result
    assert repr(base) == before


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "add", "path": "/a/b", "value": 1}],
        [{"op": "add", "path": "/list/5", "value": 1}],
        [{"op": "add", "path": "/list/01", "value": 1}],
        [{"op": "remove", "path": "/list/-"}],
        [{"op": "move", "from": "/list", "path": "/list/0"}],
        [{"op": "remove", "path": ""}],
        [{"op": "replace", "path": "/x/y/z", "value": 1}],
        [{"path": "/x"}],
        [None],
    ],
)
def test_json_patches_that_cannot_apply_are_refused(operations: Any) -> None:
    with pytest.raises(ApiError):
        json_patch({"list": [1, 2], "x": 1}, operations)


@pytest.mark.parametrize(
    ("base", "patch", "result"),
    [
        (
            {"list": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]},
            {"list": [{"name": "b", "v": None}, {"name": "c"}]},
            {"list": [{"name": "a", "v": 1}, {"name": "b"}, {"name": "c"}]},
        ),
        (
            {"list": [{"name": "a"}, {"name": "b"}]},
            {"list": [{"name": "new"}]},
            {"list": [{"name": "new"}, {"name": "a"}, {"name": "b"}]},
        ),
        (
            {"ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}]},
            {"ports": [{"port": 1, "protocol": "UDP", "x": 1}]},
            {"ports": [{"port": 1}, {"port": 1, "protocol": "UDP", "x": 1}]},
        ),
        (
            {"list": [{"name": n} for n in "abcd"]},
            {"$setElementOrder/list": [{"name": "d"}, {"name": "b"}], "list": []},
            {"list": [{"name": "a"}, {"name": "c"}, {"name": "d"}, {"name": "b"}]},
        ),
        ({"set": ["a", "b"]}, {"set": ["b", "c"]}, {"set": ["a", "b", "c"]}),
        ({"set": ["a", "b"]}, {"set": ["c"]}, {"set": ["c", "a", "b"]}),
        (
            {"set": ["a", "b"]},
            {"$deleteFromPrimitiveList/set": ["a"], "set": []},
            {"set": ["b"]},
        ),
        ({"m": {"a": 1, "b": 2}}, {"m": {"$patch": "replace", "c": 3}}, {"m": {"c": 3}}),
        ({"m": {"a": 1}}, {"m": {"$patch": "delete"}}, {"m": {}}),
        (
            {"m": {"a": 1, "b": 2}},
            {"m": {"$retainKeys": ["b", "c"], "c": 3}},
            {"m": {"b": 2, "c": 3}},
        ),
        ({"plain": [1, 2]}, {"plain": [3]}, {"plain": [3]}),
    ],
)
def test_strategic_merge_by_its_directives(base: Any, patch: Any, result: Any) -> None:
    before = repr(base)
    assert strategic_merge(base, patch, SHAPE) == result
    assert repr(base) == before


NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.one_of(st.integers(0, 3), st.sampled_from(["x", "y"]))
ITEMS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"v": SCALARS, "w": SCALARS}),
    unique_by=lambda item: item["name"],
    max_size=3,
)
OBJECTS: st.SearchStrategy[Object] = st.fixed_dictionaries(
    {},
    optional={
        "scalar": SCALARS,
        "map": st.dictionaries(NAMES, SCALARS, max_size=3),
        "list": ITEMS,
        "set": st.lists(NAMES, unique=True, max_size=3),
        "whole": st.dictionaries(NAMES, SCALARS, max_size=2),
        "plain": st.lists(SCALARS, max_size=3),
    },
)


def _applied(config: Object) -> Object:
    return {"apiVersion": "v1", "metadata": {"name": "o"}, **config}


def _apply(live: Object | None, config: Object, manager: str, *, force: bool = True) -> Object:
    if live is None:
        return ssa.created_by(_applied(config), SHAPE, manager, "", "now")
    return ssa.merged(live, _applied(config), SHAPE, manager, "", "now", force=force)


def _content(obj: Object) -> Object:
    """Without metadata and what is empty, lists of items and sets in any order."""
    out: Object = {}
    for key, value in obj.items():
        if key in ("apiVersion", "metadata") or value in ({}, []):
            continue
        if key == "list":
            value = {item["name"]: item for item in value}
        out[key] = sorted(value) if key == "set" else value
    return out


@given(OBJECTS)
def test_field_sets_survive_the_wire(obj: Object) -> None:
    fields = frozenset(leaves(obj, SHAPE))
    assert from_wire(to_wire(fields)) == fields
    assert all(shown(path).startswith(".") for path in fields)


@given(OBJECTS, OBJECTS)
def test_the_last_apply_of_a_lone_manager_is_what_there_is(first: Object, second: Object) -> None:
    live = _apply(_apply(None, first, "me"), second, "me")
    assert _content(live) == _content(second)
    assert _apply(live, second, "me") == live, "applying again changes nothing"


@given(OBJECTS, OBJECTS)
def test_what_two_force_the_last_one_has_and_the_other_keeps_the_rest(
    mine: Object, theirs: Object
) -> None:
    live = _apply(_apply(None, mine, "me"), theirs, "they")
    have = leaves(live, SHAPE)
    for path, value in leaves(_applied(theirs), SHAPE).items():
        if value is not None:
            assert have[path] == value, shown(path)
    alone = _apply(live, {}, "they")
    left = leaves(alone, SHAPE)
    taken = {p for p, v in leaves(_applied(theirs), SHAPE).items() if v is not None}
    for path, value in leaves(_applied(mine), SHAPE).items():
        if value is not None and not any(
            path[: len(t)] == t or t[: len(path)] == path for t in taken
        ):
            assert left.get(path) == value, shown(path)


@given(OBJECTS, OBJECTS)
def test_without_force_nothing_that_another_owns_changes(mine: Object, theirs: Object) -> None:
    live = _apply(None, mine, "me")
    try:
        after = _apply(live, theirs, "they", force=False)
    except ApiError as error:
        assert error.code == 409
        return
    have = leaves(after, SHAPE)
    for path, value in leaves(_applied(mine), SHAPE).items():
        if value is not None:
            assert have[path] == value, shown(path)


@given(OBJECTS, OBJECTS)
def test_an_update_takes_what_it_changes(mine: Object, theirs: Object) -> None:
    live = _apply(None, mine, "me")
    new = {**live, **theirs}
    after = ssa.after_update(live, new, SHAPE, "hand", "", "now")
    owned = {m.name: m.fields for m in ssa.managers_of(after)}
    before, now = leaves(live, SHAPE), leaves(new, SHAPE)
    changed = {p for p, v in now.items() if p not in before or before[p] != v}
    assert owned.get("hand", frozenset()) == changed
    assert not owned.get("me", frozenset()) & changed

"""Columns and cells: what `kubectl get` shows, and the JSONPath that finds it."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.memory.kinds import builtin_kinds
from kai_ray.cluster.rest.jsonpath import JsonPathError, find
from kai_ray.cluster.rest.printers import custom
from kai_ray.cluster.rest.printers.book import printer_of
from kai_ray.cluster.rest.printers.column import duration, joined, selector_text
from kai_ray.cluster.rest.printers.pods import pod_status
from kai_ray.cluster.rest.tables import table

NOW = 1_800_000_000.0
MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0.4, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (10 * MINUTE + 5, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + 3 * HOUR, "2d3h"),
        (8 * DAY + HOUR, "8d"),
        (729 * DAY, "729d"),
        (731 * DAY, "2y1d"),
        (365 * 9 * DAY + DAY, "9y"),
    ],
)
def test_ages_read_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


THING = {
    "spec": {"a.b": 1, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2, "ok": True}], "deep": [[7]]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.list[0].n", ["x"]),
        ("{.spec.list[-1].n}", ["y"]),
        ("$.spec.list[*].v", [1, 2]),
        (".spec.list[:1].n", ["x"]),
        (".spec['a.b']", [1]),
        (r".spec.a\.b", [1]),
        (".spec.list[5].n", []),
        (".nothing.at.all", []),
        ("..v", [1, 2]),
        (".spec.deep[0][0]", [7]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        ("..conditions[?(@.type == 'Lost')].status", []),
        (".spec.list[?(@.v > 1)].n", ["y"]),
        (".spec.list[?(@.ok)].n", ["y"]),
        (".spec.list[?(@.ok==true)].n", ["y"]),
        (".spec.list[?(@.n != 'x')].v", [2]),
        (".spec.list[?(@.n > 1)].v", []),
        ("spec.list[0].v", [1]),
        (".status.*[0].type", ["Ready"]),
    ],
)
def test_json_paths_find(path: str, found: list[Any]) -> None:
    assert find(path, THING) == found


@pytest.mark.parametrize(
    "path", [".a[", ".a[b c]", ".a..", ".a[?(x)]", ".a[?(@.b == c d)]", ".a b"]
)
def test_json_paths_that_mean_nothing_are_refused(path: str) -> None:
    with pytest.raises(JsonPathError):
        find(path, {"a": [{"b": 1}], "b": 2})


def status(**values: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": values.pop("spec", {}), "status": values}


def container(name: str = "c", **state: Any) -> dict[str, Any]:
    return {"name": name, "state": state}


READY = [{"type": "Ready", "status": "True"}]
NOT_INIT = [{"type": "Initialized", "status": "False"}]


@pytest.mark.parametrize(
    ("pod", "word"),
    [
        (status(phase="Pending"), "Pending"),
        (status(), "Unknown"),
        (status(phase="Failed", reason="Evicted"), "Evicted"),
        (
            status(
                phase="Pending",
                conditions=[
                    {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
                ],
            ),
            "SchedulingGated",
        ),
        (
            status(
                phase="Running",
                containerStatuses=[container(waiting={"reason": "CrashLoopBackOff"})],
            ),
            "CrashLoopBackOff",
        ),
        (
            status(phase="Failed", containerStatuses=[container(terminated={"reason": "Error"})]),
            "Error",
        ),
        (
            status(phase="Failed", containerStatuses=[container(terminated={"exitCode": 3})]),
            "ExitCode:3",
        ),
        (
            status(phase="Failed", containerStatuses=[container(terminated={"signal": 9})]),
            "Signal:9",
        ),
        (
            status(
                phase="Pending",
                spec={"initContainers": [{"name": "i"}, {"name": "j"}]},
                conditions=NOT_INIT,
                initContainerStatuses=[
                    container("i", terminated={"exitCode": 0}),
                    container("j", running={}),
                ],
            ),
            "Init:1/2",
        ),
        (
            status(
                phase="Pending",
                spec={"initContainers": [{"name": "i"}]},
                conditions=NOT_INIT,
                initContainerStatuses=[container("i", terminated={"exitCode": 1})],
            ),
            "Init:ExitCode:1",
        ),
        (
            status(
                phase="Running",
                conditions=READY,
                containerStatuses=[
                    container("a", terminated={"reason": "Completed"}),
                    container("b", running={}) | {"ready": True},
                ],
            ),
            "Running",
        ),
    ],
)
def test_a_pod_has_one_word(pod: dict[str, Any], word: str) -> None:
    assert pod_status(pod) == word


@pytest.mark.parametrize(
    ("phase", "word"),
    [("Running", "Terminating"), ("Succeeded", "Succeeded"), ("Failed", "Failed")],
)
def test_a_pod_that_is_deleted_terminates_unless_it_has_ended(phase: str, word: str) -> None:
    pod = status(phase=phase)
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert pod_status(pod) == word


def restarts(*inits: dict[str, Any], initialized: bool, containers: int = 0) -> Any:
    pod = status(
        phase="Running",
        spec={"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]},
        conditions=[{"type": "Initialized", "status": str(initialized)}],
        initContainerStatuses=list(inits),
        containerStatuses=[container("c") | {"restartCount": containers}],
    )
    served = next(s for s in builtin_kinds() if s.resource == r.POD)
    return printer_of(served).cells(pod, NOW)[3]


def test_restarts_are_those_of_the_containers_that_matter_now() -> None:
    waiting = container("i", waiting={"reason": "CrashLoopBackOff"}) | {"restartCount": 3}
    assert restarts(waiting, initialized=False) == "3"
    done = container("i", terminated={"exitCode": 0}) | {"restartCount": 3}
    assert restarts(done, initialized=True, containers=1) == "1"


def test_every_builtin_kind_prints_even_an_empty_object() -> None:
    for served in builtin_kinds():
        obj = {"kind": served.resource.kind, "metadata": {"name": "n"}}
        made = table(served, [obj], NOW)
        (row,) = made["rows"]
        assert len(row["cells"]) == len(made["columnDefinitions"]), served.resource.kind
        assert made["columnDefinitions"][0]["name"] in ("Name", "Last Seen")


def test_every_shipped_crd_prints() -> None:
    from kai_ray.cluster.memory import install_defaults

    store = MemoryStore()
    install_defaults(store)
    for served in store.kinds:
        if not served.builtin:
            obj = {"metadata": {"name": "n", "creationTimestamp": "2027-01-15T08:00:00Z"}}
            cells = printer_of(served).cells(obj, NOW)
            assert cells[0] == "n"
            assert "<invalid path>" not in cells, served.resource.kind


COLUMNS = [
    {"name": "Int", "type": "integer", "jsonPath": ".spec.i"},
    {"name": "Num", "type": "number", "jsonPath": ".spec.f"},
    {"name": "Bool", "type": "boolean", "jsonPath": ".spec.b"},
    {"name": "Text", "type": "string", "jsonPath": ".spec.t"},
    {"name": "Date", "type": "date", "jsonPath": ".spec.d"},
]


@pytest.mark.parametrize(
    ("spec", "cells"),
    [
        (
            {"i": 3, "f": 1.5, "b": False, "t": "x", "d": "2027-01-15T07:00:00Z"},
            [3, 1.5, False, "x", "60m"],
        ),
        ({}, [None, None, None, None, None]),
        (
            {"i": 3.9, "f": 2, "b": "yes", "t": 5, "d": "yesterday"},
            [3, 2.0, None, "5", "<invalid>"],
        ),
        (
            {"i": "3", "t": {"a": [1, "b"]}, "d": 5},
            [None, None, None, '{"a":[1,"b"]}', "<invalid>"],
        ),
        ({"i": True, "t": ["x", True]}, [None, None, None, '["x",true]', None]),
    ],
)
def test_custom_columns_are_typed(spec: dict[str, Any], cells: list[Any]) -> None:
    printer = custom.printer(tuple(COLUMNS))
    assert printer.cells({"metadata": {"name": "n"}, "spec": spec}, NOW)[1:] == cells


def test_priority_hides_a_column_until_wide_and_none_shows_the_age() -> None:
    printer = custom.printer(({"name": "W", "type": "string", "jsonPath": ".w", "priority": 1},))
    assert [c.wide for c in printer.columns] == [False, True]
    assert [c.name for c in custom.printer(()).columns] == ["Name", "Age"]


def test_finished_pods_are_marked_in_their_row() -> None:
    served = next(s for s in builtin_kinds() if s.resource == r.POD)
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Succeeded"}}
    (row,) = table(served, [pod], NOW)["rows"]
    (mark,) = row["conditions"]
    assert (mark["type"], mark["status"], mark["reason"]) == ("Completed", "True", "Succeeded")


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, "<none>"),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"a": "1"}, "a=1"),
        (
            {
                "matchExpressions": [
                    {"key": "k", "operator": "In", "values": ["x", "y"]},
                    {"key": "m", "operator": "DoesNotExist"},
                ]
            },
            "k in (x,y),!m",
        ),
    ],
)
def test_selectors_read_as_on_the_command_line(selector: Any, text: str) -> None:
    assert selector_text(selector) == text


def test_long_lists_are_cut_short() -> None:
    assert joined([], 3) == "<none>"
    assert joined(range(3), 3) == "0,1,2"
    assert joined(range(5), 3) == "0,1,2 + 2 more..."

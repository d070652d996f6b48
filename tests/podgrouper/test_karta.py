"""Kinds that only a Karta describes."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Resource
from kai_ray.podgrouper.paths import values_at
from kai_ray.podgrouper.values import GroupError
from tests.podgrouper.planning import Object, gang, pods, refusal, shape, workload
from tests.podgrouper.world import World

FLOW = {"groups": [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 3}], "x.y/z": {"k": 7}}


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (".groups[].replicas", [2, 3]),
        (".groups[1].name", ["b"]),
        ('.["x.y/z"].k', [7]),
        ('."x.y/z"["k"]', [7]),
        (".missing.deep // 4", [4]),
        (".groups[].missing // .groups[].name", ["a", "b"]),
        ('"1"', ["1"]),
        ("1", [1]),
        ("(.groups[0].replicas // 1)", [2]),
        (".groups?", [FLOW["groups"]]),
    ],
)
def test_paths_are_jqs(expression: str, found: list[Any]) -> None:
    assert values_at(FLOW, expression, "f") == found


@pytest.mark.parametrize("expression", [".a | length", "any(.a)", ".a > 0", "..", "$x"])
def test_what_is_more_than_a_path_is_refused(expression: str) -> None:
    with pytest.raises(GroupError, match="not understood"):
        values_at(FLOW, expression, "f")


def component(name: str, path: str | None, **more: Any) -> Object:
    scale = {"scaleDefinition": {"replicasPath": path}} if path else {}
    return {
        "name": name,
        "ownerRef": "flow",
        "kind": {"version": "v1", "kind": "Pod"},
        "specDefinition": {"podTemplateSpecPath": f".spec.{name}.template"},
        "podSelector": {
            "componentTypeSelector": {"keyPath": ".metadata.labels.role", "value": name}
        },
        **scale,
        **more,
    }


def karta(gangs: Object, *children: Object) -> Object:
    made = workload(
        "run.ai/v1alpha1",
        "Karta",
        {
            "structureDefinition": {
                "rootComponent": {
                    "name": "flow",
                    "kind": {"group": "example.com", "version": "v1", "kind": "Flow"},
                },
                "childComponents": list(children)
                or [
                    component("master", ".spec.master.replicas // 1"),
                    component("worker", ".spec.worker.replicas // 1"),
                ],
            },
            "optimizationInstructions": {"gangScheduling": gangs},
        },
        labels={
            "run.ai/karta-group": "example.com",
            "run.ai/karta-version": "v1",
            "run.ai/karta-kind": "Flow",
        },
    )
    made["metadata"]["name"] = "flow"
    return made


def flow(workers: int = 3) -> Object:
    spec = {"master": {"template": pods()}, "worker": {"replicas": workers, "template": pods()}}
    return workload("example.com/v1", "Flow", spec)


WHOLE = {
    "podGroup": {
        "name": "run",
        "subGroups": [
            {"componentName": "master"},
            {
                "componentName": "worker",
                "topology": {"topologyName": "t", "requiredTopologyLevel": "rack"},
            },
        ],
    }
}


def test_each_component_is_a_subgroup() -> None:
    found = gang(flow(), karta(WHOLE))
    assert (found.name, found.min_member, found.pods) == ("pg-<uid>-run", 4, 4)
    assert shape(found) == [("master", None, 1, None), ("worker", None, 3, None)]
    assert found.sub_groups[1].topology is not None
    assert found.requests == {"cpu": "4"}


def test_numbers_multiply_down_the_tree() -> None:
    outer = component("worker", ".spec.worker.replicas", podSelector={})
    inner = component("host", "2", ownerRef="worker")
    only = {"podGroup": {"name": "run", "subGroups": [{"componentName": "worker"}]}}
    assert gang(flow(3), karta(only, outer, inner)).min_member == 6


def test_without_subgroups_the_whole_is_counted() -> None:
    assert gang(flow(), karta({"podGroup": {"name": "run"}})).min_member == 4


@pytest.mark.parametrize(
    ("gangs", "children", "words"),
    [
        ({"podGroup": {"name": "r", "subGroups": [{"componentName": "x"}]}}, (), "no component"),
        (WHOLE, (component("master", None), component("worker", "1")), "no number"),
        (WHOLE, (component("master", ".a | length"), component("worker", "1")), "not understood"),
    ],
)
def test_a_definition_that_does_not_hold_is_refused(
    gangs: Object, children: tuple[Object, ...], words: str
) -> None:
    assert words in refusal(flow(), karta(gangs, *children))


def definition(group: str, kind: str) -> Object:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1" if kind == "Flow" else "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if kind == "Flow" else "Cluster",
            "names": {"plural": plural, "kind": kind, "singular": kind.lower()},
            "versions": [version],
        },
    }


MEMBERS = {
    "podGroups": [
        {
            "name": "run",
            "members": [{"componentName": "flow", "groupByKeyPaths": [".metadata.labels.run"]}],
        }
    ]
}


def test_pods_of_a_described_kind_find_their_group_in_a_cluster() -> None:
    world = World()
    world.add(kinds.CRD, definition("example.com", "Flow"))
    world.add(kinds.CRD, definition("run.ai", "Karta"))
    world.add(Resource("run.ai", "v1alpha1", "kartas", "Karta", False), karta(MEMBERS))
    owner = world.add(Resource("example.com", "v1", "flows", "Flow"), flow())
    pod = world.pod(owner, "w0", {"role": "worker", "run": "r7"})
    name = f"pg-{owner['metadata']['uid']}-r7"
    assert pod["metadata"]["annotations"]["pod-group-name"] == name
    assert world.group()["spec"]["minMember"] == 4
    assert (
        world.podgrouper.member_of(
            {
                **pod,
                "metadata": {
                    **pod["metadata"],
                    "annotations": {},
                    "labels": {"role": "worker", "run": "Not_A_Name"},
                },
            }
        )
        is None
    )

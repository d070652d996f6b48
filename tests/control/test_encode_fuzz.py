"""Whatever an object holds, reading it never fails and never spoils the others."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Resource
from kai_ray.encode import Encoder
from kai_ray.scheduler import decide

from . import objects

_JUNK = st.sampled_from(
    [
        *(None, -1, 0, 2**70, 1.5, float("nan"), float("inf"), "", "x", "-1", "1e400", True),
        *([], {}, [None], [1], ["x"], [{}], {"x": None}, {"": {}}, {"matchLabels": 1}),
        "2026-99-99T00:00:00Z",
    ]
)
_TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
_FULL_POD = objects.pod(
    "p",
    "g",
    labels={"app": "x", "kai.scheduler/task-priority": "1"},
    nodeSelector={"zone": "a"},
    tolerations=[{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": []}}
            ],
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]},
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": _TERM}
            ]
        },
    },
    topologySpreadConstraints=[{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **_TERM}],
    initContainers=[{"name": "i", "restartPolicy": "Always", "ports": [{"hostPort": 1}]}],
    overhead={"cpu": "1m"},
    volumes=[
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "w", "configMap": {"name": "m"}},
    ],
    schedulingGates=[],
)
_FULL_GROUP = objects.podgroup(
    "g",
    minimum=None,
    priorityClassName="p",
    preemptibility="preemptible",
    subGroups=[{"name": "a", "minSubGroup": 1}, {"name": "b", "parent": "a", "minMember": 1}],
)
_OBJECTS: list[tuple[Resource, Any]] = [
    (kinds.POD, _FULL_POD),
    (kinds.POD_GROUP, _FULL_GROUP),
    (kinds.QUEUE, objects.queue("team", "root", priority=1)),
    (kinds.NODE, objects.node("n", taints=[{"key": "k", "effect": "NoSchedule"}])),
    (kinds.PRIORITY_CLASS, {"metadata": {"name": "p"}, "value": 1, "globalDefault": True}),
    (kinds.NAMESPACE, {"metadata": {"name": "default", "labels": {"a": "b"}}}),
    (
        kinds.PVC,
        {
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"volumeName": "pv", "storageClassName": "s"},
        },
    ),
    (
        kinds.PV,
        {
            "metadata": {"name": "pv"},
            "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{}]}}},
        },
    ),
    (
        kinds.STORAGE_CLASS,
        {
            "metadata": {"name": "s", "annotations": {}},
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a"]}]}],
        },
    ),
    (
        kinds.BIND_REQUEST,
        {
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"podName": "p", "selectedNode": "n"},
            "status": {"phase": "Pending"},
        },
    ),
]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        found += _paths(item, (*path, key))
    return found


#: Names and namespaces are what an object is known by: the store vouches for them.
_KNOWN_BY = (("metadata",), ("metadata", "name"), ("metadata", "namespace"))
_PLACES = [
    (i, path)
    for i, (_, obj) in enumerate(_OBJECTS)
    for path in _paths(obj)
    if path not in _KNOWN_BY
]


def _spoiled(place: tuple[int, tuple[Any, ...]], junk: Any) -> tuple[Resource, Any]:
    resource, obj = _OBJECTS[place[0]]
    made = copy.deepcopy(obj)
    at = made
    for step in place[1][:-1]:
        at = at[step]
    at[place[1][-1]] = junk
    return resource, made


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(_PLACES), _JUNK), min_size=1, max_size=3))
def test_junk_anywhere_in_an_object_is_reported_and_the_rest_goes_on(spoils: list[Any]) -> None:
    encoder = Encoder()
    encoder.apply(kinds.NODE, None, objects.node("good"))
    encoder.apply(kinds.QUEUE, None, objects.queue("fine"))
    encoder.apply(kinds.POD_GROUP, None, objects.podgroup("good", "fine"))
    for resource, obj in _OBJECTS:
        encoder.apply(resource, None, obj)
    for place, junk in spoils:
        resource, obj = _spoiled(place, junk)
        encoder.apply(resource, _OBJECTS[place[0]][1], obj)
        encoder.snapshot(0.0)
    encoder.apply(kinds.POD, None, objects.pod("good", "good", namespace="default"))
    encoded = encoder.snapshot(0.0)
    plan = decide(encoded.snapshot)
    started = {encoded.names.pod(task).name for task in plan.bind_task.tolist()}
    assert "good" in started
    for resource, obj in _OBJECTS:
        encoder.apply(resource, obj, None)
    encoder.snapshot(0.0)

"""Arrays kept up to date by events equal arrays built anew, byte for byte."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key, Resource, key_of
from kai_ray.encode import Encoded, Encoder
from kai_ray.encode.encoder import RESOURCES

from .objects import node, pod, podgroup, queue

_NOW = 1_800_000_000.0
_names = st.sampled_from(["a", "b", "c", "d"])
_spaces = st.sampled_from(["default", "other"])
_label = st.dictionaries(st.sampled_from(["app", "zone"]), st.sampled_from(["x", "y"]), max_size=2)


def _flat(value: Any) -> Any:
    """Anything a snapshot is made of, as comparable bytes and tuples."""
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes())
    if hasattr(value, "__dataclass_fields__"):
        return tuple((name, _flat(getattr(value, name))) for name in value.__dataclass_fields__)
    if isinstance(value, tuple | list):
        return tuple(_flat(v) for v in value)
    return value


def picture(encoded: Encoded) -> Any:
    n = encoded.names
    tasks = encoded.snapshot.tasks.count
    return (
        _flat(encoded.snapshot),
        n.nodes,
        n.queues,
        n.gangs,
        [n.pod(i) for i in range(tasks)],
        encoded.problems,
        encoded.orphans,
        encoded.shapes,
        encoded.held.tobytes(),
    )


@st.composite
def _selector(draw: st.DrawFn) -> dict[str, Any]:
    op = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
    values = {"values": [draw(st.sampled_from(["x", "y"]))]} if "In" in op else {}
    return {"matchExpressions": [{"key": "app", "operator": op, **values}]}


@st.composite
def _pods(draw: st.DrawFn) -> tuple[Resource, dict[str, Any]]:
    spec: dict[str, Any] = {}
    term = {"topologyKey": "zone", "labelSelector": draw(_selector())}
    extra = draw(st.integers(0, 9))
    if extra == 1:
        spec["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    elif extra == 2:
        term["namespaceSelector"] = {"matchLabels": {"app": "x"}}
        spec["affinity"] = {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "podAffinityTerm": term}
                ]
            }
        }
    elif extra == 3:
        spec["topologySpreadConstraints"] = [{"maxSkew": 1, **term, "matchLabelKeys": ["app"]}]
    elif extra == 4:
        spec["nodeSelector"] = {"zone": draw(st.sampled_from(["x", "y"]))}
        spec["tolerations"] = [{"operator": "Exists"}]
    elif extra == 5:
        spec["volumes"] = [{"persistentVolumeClaim": {"claimName": draw(_names)}}]
    elif extra in (7, 8):
        shares = [{"gpu-fraction": "0.5"}, {"gpu-memory": "8000"}, {"gpu-fraction": "2"}]
        spec["annotations"] = draw(st.sampled_from([*shares, {"nvidia.com/mig-x": "1"}]))
    elif extra == 6:
        spec["requests"] = {"google.com/tpu": draw(st.sampled_from(["4", "nonsense", "-1"]))}
    made = pod(
        f"pod-{draw(_names)}",
        draw(st.sampled_from(["a", "b", ""])),
        gpus=draw(st.integers(0, 2)) if extra < 7 else 0,
        namespace=draw(_spaces),
        scheduler=draw(st.sampled_from(["kai-scheduler", "default-scheduler", "else"])),
        node=draw(st.sampled_from(["", "a", "b", "gone"])),
        phase=draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])),
        labels=draw(_label),
        uid=draw(_names),
        **spec,
    )
    if draw(st.booleans()):
        made["metadata"]["labels"]["kai.scheduler/subgroup-name"] = draw(_names)
    if extra == 7:
        made["metadata"]["labels"]["runai-gpu-group"] = draw(_names)
    if draw(st.integers(0, 4)) == 0:
        made["metadata"]["deletionTimestamp"] = "2027-01-15T07:59:00Z"
    return kinds.POD, made


@st.composite
def _groups(draw: st.DrawFn) -> tuple[Resource, dict[str, Any]]:
    subs = draw(
        st.lists(
            st.fixed_dictionaries(
                {"name": _names, "minMember": st.integers(0, 2)},
                optional={"parent": _names},
            ),
            max_size=3,
        )
    )
    made = podgroup(
        draw(_names),
        draw(st.sampled_from(["a", "b", "missing"])),
        draw(st.one_of(st.none(), st.integers(-1, 3))),
        namespace=draw(_spaces),
        priorityClassName=draw(st.sampled_from(["", "a", "b"])),
        **({"subGroups": subs} if subs else {}),
    )
    return kinds.POD_GROUP, made


@st.composite
def _nodes(draw: st.DrawFn) -> tuple[Resource, dict[str, Any]]:
    taints = [{"key": "zone", "value": "x", "effect": "NoSchedule"}] if draw(st.booleans()) else []
    made = node(
        draw(_names),
        draw(st.integers(0, 2)),
        ready=draw(st.booleans()),
        labels=draw(_label),
        taints=taints,
        allocatable=draw(
            st.sampled_from(
                [
                    {},
                    {"amd.com/gpu": "1"},
                    {"google.com/tpu": "4"},
                    {"nvidia.com/mig-1g.10gb": "2", "nvidia.com/mig-2g.20gb.me": "1"},
                ]
            )
        ),
    )
    return kinds.NODE, made


@st.composite
def _others(draw: st.DrawFn) -> tuple[Resource, dict[str, Any]]:
    which = draw(st.integers(0, 4))
    name = draw(_names)
    if which == 0:
        quota = draw(st.sampled_from([0, 4, -1, -2, float("nan")]))
        parent = draw(st.sampled_from(["", "", "a", "b"]))
        return kinds.QUEUE, queue(name, parent, gpu={"quota": quota, "limit": -1})
    if which == 1:
        made = {"metadata": {"name": name}, "value": draw(st.integers(0, 200))}
        return kinds.PRIORITY_CLASS, made
    if which == 2:
        labels = draw(st.sampled_from([{}, {"app": "x"}, {"kai.scheduler/managed": "true"}]))
        return kinds.NAMESPACE, {"metadata": {"name": draw(_spaces), "labels": labels}}
    if which == 3:
        made = {
            "metadata": {"name": name, "namespace": draw(_spaces)},
            "spec": {
                "podName": f"pod-{name}",
                "selectedNode": "a",
                "selectedGPUGroups": draw(st.sampled_from([None, ["a"], ["a", "b"], "ab", [1]])),
            },
        }
        return kinds.BIND_REQUEST, made
    made = {"metadata": {"name": name, "namespace": draw(_spaces)}, "spec": {}}
    return kinds.PVC, made


_change = st.one_of(_pods(), _groups(), _nodes(), _others())
_step = st.tuples(_change, st.integers(0, 3), st.booleans())


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_step, max_size=40))
def test_incremental_equals_rebuilt(steps: list[Any]) -> None:
    live: dict[tuple[Resource, Key], dict[str, Any]] = {}
    kept = Encoder()
    for (resource, obj), action, look in steps:
        slot = (resource, key_of(obj))
        old = live.get(slot)
        if action == 0 and old is not None:
            del live[slot]
            kept.apply(resource, old, None)
        else:
            live[slot] = obj
            kept.apply(resource, old, copy.deepcopy(obj))
        if look:
            kept.snapshot(_NOW)
    fresh = Encoder()
    for resource in reversed(RESOURCES):
        for (r, _), obj in sorted(live.items(), key=lambda item: str(item[0][1]), reverse=True):
            if r == resource:
                fresh.apply(r, None, obj)
    assert picture(kept.snapshot(_NOW)) == picture(fresh.snapshot(_NOW))
    kept.snapshot(_NOW).snapshot.validate()  # whatever the objects say, the arrays are sound


@settings(max_examples=50, deadline=None)
@given(st.lists(_change, max_size=25))
def test_nothing_is_left_of_what_has_gone(changes: list[Any]) -> None:
    encoder = Encoder()
    live = {}
    for resource, obj in changes:
        encoder.apply(resource, live.get((resource, key_of(obj))), obj)
        live[resource, key_of(obj)] = obj
        encoder.snapshot(_NOW)
    for (resource, _), obj in live.items():
        encoder.apply(resource, obj, None)
    assert picture(encoder.snapshot(_NOW)) == picture(Encoder().snapshot(_NOW))
    for table in (encoder.gangs.leaves, encoder.classes.shapes, encoder.classes.index.peers):
        assert not table.ids


def test_what_did_not_change_moves_no_version_and_copies_no_array() -> None:
    encoder = Encoder()
    encoder.apply(kinds.NODE, None, node("a"))
    encoder.apply(kinds.POD_GROUP, None, podgroup("g"))
    encoder.apply(kinds.POD, None, pod("p", "g"))
    first, version = encoder.snapshot(_NOW), encoder.version
    again = pod("p", "g")
    again["status"]["conditions"] = [{"type": "PodScheduled", "status": "False"}]
    encoder.apply(kinds.POD, pod("p", "g"), again)
    changed = podgroup("g")
    changed["status"] = {"conditions": []}
    encoder.apply(kinds.POD_GROUP, podgroup("g"), changed)
    encoder.apply(kinds.NODE, node("a"), {**node("a"), "extra": "heartbeat"})
    assert encoder.version == version
    second = encoder.snapshot(_NOW + 1)
    assert second.snapshot.tasks is first.snapshot.tasks
    assert second.snapshot.nodes is first.snapshot.nodes

"""Garbage in the place of any field is refused or stored: it never breaks the store."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from kai_ray.cluster import resources as r
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import ApiError, Object, Resource

TEMPLATE: Object = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "restartPolicy": "Never",
        "nodeSelector": {"a": "b"},
        "initContainers": [{"name": "i", "image": "i:1"}],
        "containers": [
            {
                "name": "c",
                "image": "i:1",
                "command": ["a"],
                "env": [{"name": "A", "value": "b"}],
                "ports": [{"containerPort": 80}],
                "resources": {"requests": {"cpu": 1}, "limits": {"cpu": "1", "nvidia.com/gpu": 1}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "schedulingGates": [{"name": "a/b"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "z",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"a": "b"}},
            }
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": []}}
                ],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "z", "labelSelector": {"matchExpressions": []}}
                ]
            },
        },
    },
}
LASTING: Object = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Always"}}
SELECTED: Object = {
    "replicas": 1,
    "selector": {"matchLabels": {"a": "b"}, "matchExpressions": []},
    "template": LASTING,
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
}
GOOD: list[tuple[Resource, Object]] = [
    (r.POD, TEMPLATE),
    (r.JOB, {"spec": {"template": TEMPLATE, "completions": 1, "completionMode": "Indexed"}}),
    (r.CRON_JOB, {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}}),
    (r.DEPLOYMENT, {"spec": SELECTED}),
    (r.STATEFUL_SET, {"spec": SELECTED}),
    (r.NODE, {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}, "status": {"capacity": {"cpu": 1}}}),
    (r.SERVICE, {"spec": {"ports": [{"port": 80, "name": "x"}], "selector": {"a": "b"}}}),
    (r.SECRET, {"data": {"a": "YQ=="}, "stringData": {"b": "c"}, "type": "Opaque"}),
    (r.CONFIG_MAP, {"data": {"a": "b"}}),
    (r.PVC, {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
    (r.PV, {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}}),
    (r.PDB, {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
    (r.PRIORITY_CLASS, {"value": 5, "globalDefault": False, "preemptionPolicy": "Never"}),
    (r.EVENT, {"involvedObject": {"kind": "Pod", "name": "p"}, "lastTimestamp": "2026-01-01T00:00:00Z"}),
    (r.LEASE, {"spec": {"leaseDurationSeconds": 5, "holderIdentity": "a"}}),
    (r.NAMESPACE, {"spec": {"finalizers": ["kubernetes"]}}),
    (r.QUEUE, {"spec": {"resources": {"gpu": {"quota": 1, "limit": 2}}, "parentQueue": "x"}}),
    (r.POD_GROUP, {"spec": {"minMember": 1, "subGroups": [{"name": "a", "parent": "b"}]}}),
    (r.TOPOLOGY, {"spec": {"levels": [{"nodeLabel": "a", "alias": "b"}]}}),
    (r.RAY_CLUSTER, {"spec": {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [{"groupName": "w"}]}}),
    (
        r.CRD,
        {
            "spec": {
                "group": "fuzz.example.com",
                "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
                        "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}],
                        "selectableFields": [{"jsonPath": ".spec.n"}],
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {
                                    "spec": {
                                        "type": "object",
                                        "required": ["n"],
                                        "properties": {"n": {"type": "integer", "enum": [1], "default": 1}},
                                        "x-kubernetes-validations": [{"rule": "self.n > 0", "message": "m"}],
                                    }
                                },
                            }
                        },
                    }
                ],
            }
        },
    ),
]  # fmt: skip
# ruff: noqa: E501

GARBAGE: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 2**31, 2**63, -(2**70), 1.5, 1e300, float("nan"), float("inf")]),
    st.sampled_from(["", "x", "A B", "-1", "1e99", "9" * 400, "\x00", "ä" * 300]),
    st.sampled_from([[], {}, [None], [[]], [{}], {"": None}, {"a": {"b": {}}}, [1, "a", {}]]),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _places(item, (*path, i))


def _put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    new = copy.deepcopy(new)
    for part in path[:-1]:
        value = value[part]
    value[path[-1]] = new


def _named(resource: Resource, body: Object) -> Object:
    name = "things.fuzz.example.com" if resource == r.CRD else "fuzz"
    meta = {**body.get("metadata", {}), "name": name, "annotations": {"a": "b"}}
    meta |= {"finalizers": ["a/b"], "ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}  # fmt: skip
    if resource.namespaced:
        meta["namespace"] = "default"
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": meta}


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    found = MemoryStore()
    install_defaults(found)
    found.create(
        r.POD, _clean(r.POD, TEMPLATE) | {"metadata": {"name": "p", "namespace": "default"}}
    )
    return found


def _clean(resource: Resource, body: Object) -> Object:
    obj = _named(resource, copy.deepcopy(body))
    del obj["metadata"]["finalizers"], obj["metadata"]["ownerReferences"]
    return obj


def _remove(store: MemoryStore, resource: Resource, obj: Object) -> None:
    meta = obj["metadata"]
    place = meta.get("namespace", "")
    if meta.get("finalizers"):
        store.patch(resource, meta["name"], {"metadata": {"finalizers": None}}, place)
    try:
        store.delete(resource, meta["name"], place, grace_s=0)
    except ApiError as error:
        assert error.code == 404


@pytest.mark.parametrize(("resource", "body"), GOOD, ids=[k.kind for k, _ in GOOD])
def test_the_seeds_of_the_fuzz_are_good(
    store: MemoryStore, resource: Resource, body: Object
) -> None:
    _remove(store, resource, store.create(resource, _clean(resource, body)))


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_garbage_on_creation_is_refused_or_stored(store: MemoryStore, data: st.DataObject) -> None:
    resource, body = data.draw(st.sampled_from(GOOD))
    obj = _named(resource, copy.deepcopy(body))
    for _ in range(data.draw(st.integers(1, 2))):
        _put(obj, data.draw(st.sampled_from(list(_places(obj)))), data.draw(GARBAGE))
    version = store.version
    try:
        made = store.create(resource, obj)
    except ApiError as error:
        assert error.code < 500, error
        assert error.message
        assert store.version == version, "a refusal leaves nothing behind"
        return
    msgspec.json.encode(made)
    _remove(store, resource, made)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_garbage_in_a_patch_is_refused_or_stored(store: MemoryStore, data: st.DataObject) -> None:
    resource, body = data.draw(st.sampled_from(GOOD))
    made = store.create(resource, _clean(resource, body))
    try:
        kind: Any = data.draw(st.sampled_from(["merge", "strategic", "apply", "json", "update"]))
        patch = _clean(resource, body)
        _put(patch, data.draw(st.sampled_from(list(_places(patch)))), data.draw(GARBAGE))
        place, name = made["metadata"].get("namespace", ""), made["metadata"]["name"]
        try:
            if kind == "update":
                store.update(resource, patch)
            elif kind == "json":
                path = data.draw(st.sampled_from(list(_places(made))))
                pointer = "".join(f"/{str(p).replace('/', '~1')}" for p in path)
                word = data.draw(st.sampled_from(["add", "replace", "remove", "test"]))
                op = {"op": word, "path": pointer, "value": data.draw(GARBAGE)}
                store.patch(resource, name, [op], place, patch_type="json")
            else:
                store.patch(
                    resource, name, patch, place,
                    patch_type=kind, field_manager="fuzz", force=True,
                )  # fmt: skip
        except ApiError as error:
            assert error.code < 500, error
    finally:
        _remove(store, resource, made)

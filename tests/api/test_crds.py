"""The generated definitions: what they are, what they take, what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml

from kai_ray.api import gpu_state, kai
from kai_ray.api.crd import crds, schema_of, workload_crds
from kai_ray.cluster import resources as r
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import AlreadyExists, Invalid, Object, Resource
from tests.shared import shared_dir

BY_KIND: dict[str, Resource] = {
    kind.kind: kind
    for kind in (
        r.QUEUE,
        r.POD_GROUP,
        r.BIND_REQUEST,
        r.TOPOLOGY,
        r.SCHEDULING_SHARD,
        r.KAI_CONFIG,
        r.GPU_NODE_STATE,
    )
}
STRUCTS: dict[str, type[Any]] = {
    "Queue": kai.Queue,
    "PodGroup": kai.PodGroup,
    "BindRequest": kai.BindRequest,
    "Topology": kai.Topology,
    "SchedulingShard": kai.SchedulingShard,
    "Config": kai.Config,
    "GPUNodeState": gpu_state.GPUNodeState,
}


@pytest.fixture(scope="module")
def store() -> Iterator[MemoryStore]:
    found = MemoryStore()
    install_defaults(found)
    yield found
    found.close()


def _nodes(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    yield path, schema
    for name, sub in (schema.get("properties") or {}).items():
        yield from _nodes(sub, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _nodes(schema[key], f"{path}[]")


def _schemas() -> list[tuple[str, Object]]:
    return [
        (c["spec"]["names"]["kind"], v["schema"]["openAPIV3Schema"])
        for c in (*crds(), *workload_crds())
        for v in c["spec"]["versions"]
    ]


@pytest.mark.parametrize(("kind", "schema"), _schemas(), ids=[kind for kind, _ in _schemas()])
def test_every_schema_is_structural(kind: str, schema: Object) -> None:
    for path, node in _nodes(schema):
        where = f"{kind}{path}"
        typed = "type" in node or node.get("x-kubernetes-int-or-string")
        assert typed or node.get("x-kubernetes-preserve-unknown-fields"), where
        assert not {"$ref", "title", "x-default"} & set(node), where
        assert node.get("type") != "array" or "items" in node, where
        keys = node.get("x-kubernetes-list-map-keys")
        if keys:
            assert set(keys) <= set(node["items"]["required"]), where


def test_our_kinds_are_bounded_and_described() -> None:
    for crd in crds():
        names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
        assert crd["metadata"]["name"] == f"{names['plural']}.{crd['spec']['group']}"
        assert names["categories"] == ["kai"]
        assert version["additionalPrinterColumns"][-1]["name"] in ("Age", "age")
        kind = names["kind"]
        schema = version["schema"]["openAPIV3Schema"]
        assert schema["description"]
        if kind == "Config":
            continue
        part = "status" if kind == "GPUNodeState" else "spec"  # what others than we write
        for path, node in _nodes(schema["properties"][part]):
            if node.get("type") == "string" and "enum" not in node and "[]" not in path:
                assert "maxLength" in node, f"{kind}.{part}{path}: text without an end"


def test_every_field_of_our_kinds_says_what_it_is() -> None:
    for crd in crds():
        kind = crd["spec"]["names"]["kind"]
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        silent = [path for path, node in _fields(schema, kind) if not node.get("description")]
        assert silent == [f"{kind}.metadata"]  # which the API server describes


def _fields(schema: Object, path: str) -> Iterator[tuple[str, Object]]:
    for name, node in (schema.get("properties") or {}).items():
        yield f"{path}.{name}", node
        yield from _fields(node, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _fields(schema[key], f"{path}[]")


def test_short_names_do_not_collide() -> None:
    names = [
        n for c in (*crds(), *workload_crds()) for n in c["spec"]["names"].get("shortNames", ())
    ]
    assert len(names) == len(set(names))
    assert {"pg", "kq", "br"} <= set(names)


def test_a_schema_and_its_struct_agree() -> None:
    """What the schema lets through, the struct can read."""
    for manifest in _samples():
        struct = STRUCTS[manifest["kind"]]
        msgspec.convert(manifest, struct)


def _samples() -> list[Object]:
    queue = {"quota": 2.5, "limit": -1, "overQuotaWeight": 1}
    return [
        {
            "kind": "Queue",
            "metadata": {"name": "team"},
            "spec": {
                "parentQueue": "default-parent-queue",
                "displayName": "Team",
                "priority": 7,
                "preemptMinRuntime": "1h30m",
                "resources": {"gpu": queue, "cpu": {"quota": 500, "limit": 500}, "memory": {}},
            },
        },
        {
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {
                "queue": "team",
                "minSubGroup": 1,
                "preemptibility": "non-preemptible",
                "preemptionDelay": "5m",
                "stalenessGracePeriod": "-1s",
                "markUnschedulable": True,
                "schedulingBackoff": -1,
                "topologyConstraint": {
                    "topology": "network",
                    "requiredTopologyLevel": "topology.kubernetes.io/zone",
                },
                "subGroups": [
                    {"name": "all", "minSubGroup": 1},
                    {"name": "a", "parent": "all", "minMember": 2},
                    {"name": "b", "parent": "all", "minMember": 0},
                ],
            },
        },
        {
            "kind": "BindRequest",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {
                "podName": "p",
                "selectedNode": "n1",
                "receivedResourceType": "Fraction",
                "receivedGPU": {"count": 1, "portion": "0.50"},
                "selectedGPUGroups": ["a-b"],
                "predictedNUMAZones": [{"zone": "0", "amount": {"cpu": "2"}}],
            },
        },
        {
            "kind": "Topology",
            "metadata": {"name": "network"},
            "spec": {
                "levels": [
                    {"nodeLabel": "example.com/rack", "alias": "rack"},
                    {"nodeLabel": "kubernetes.io/hostname"},
                ]
            },
        },
        {
            "kind": "SchedulingShard",
            "metadata": {"name": "default"},
            "spec": {
                "args": {"v": "4"},
                "placementStrategy": {"gpu": "spread", "cpu": "binpack"},
                "kValue": 0.5,
                "plugins": {"numa": {"enabled": True, "priority": 5, "arguments": {"a": "b"}}},
                "usageDBConfig": {"usageParams": {"windowSize": "1w"}},
            },
        },
        {
            "kind": "Config",
            "metadata": {"name": "kai-config"},
            "spec": {
                "global": {"schedulerName": "kai-scheduler", "securityContext": {"runAsUser": 1}},
                "prometheus": {"enabled": True},
            },
        },
    ]


@pytest.mark.parametrize("sample", _samples(), ids=lambda s: s["kind"])
def test_good_samples_are_stored_as_they_are(store: MemoryStore, sample: Object) -> None:
    made = store.create(BY_KIND[sample["kind"]], {k: v for k, v in sample.items() if k != "kind"})
    assert made["spec"] == sample["spec"], "nothing pruned, nothing invented"


def test_kais_own_manifests_are_taken(store: MemoryStore) -> None:
    seen = 0
    for path in sorted(shared_dir("manifests", "kai").glob("*.yaml")):
        for doc in yaml.safe_load_all(path.read_text()):
            if not doc or doc["kind"] not in BY_KIND:
                continue
            try:
                made = store.create(BY_KIND[doc["kind"]], doc)
            except AlreadyExists:
                continue
            assert made["spec"] == doc["spec"], path.name
            seen += 1
    assert seen >= 8


def _queue(**resource: Any) -> Object:
    return {"resources": {"gpu": resource}}


def _groups(*groups: Object, **spec: Any) -> Object:
    return {"subGroups": list(groups), **spec}


def _levels(*labels: str) -> Object:
    return {"levels": [{"nodeLabel": label} for label in labels]}


BAD: list[tuple[str, Object, str]] = [
    ("Queue", {}, "spec.resources"),
    ("Queue", _queue(quota=-2), "quota"),
    ("Queue", _queue(limit=-0.1), "limit"),
    ("Queue", _queue(overQuotaWeight=-3), "overQuotaWeight"),
    ("Queue", _queue(quota=1e13), "quota"),
    ("Queue", _queue(quota="4"), "quota"),
    ("Queue", _queue(quota=5, limit=4), "gpu"),
    ("Queue", {**_queue(), "priority": 2**40}, "priority"),
    ("Queue", {**_queue(), "priority": "high"}, "priority"),
    ("Queue", {**_queue(), "parentQueue": "Not A Name"}, "parentQueue"),
    ("Queue", {**_queue(), "preemptMinRuntime": "soon"}, "preemptMinRuntime"),
    ("Queue", {**_queue(), "reclaimMinRuntime": "-5m"}, "reclaimMinRuntime"),
    ("PodGroup", {"minMember": -1}, "minMember"),
    ("PodGroup", {"minMember": 2**31}, "minMember"),
    ("PodGroup", {"minMember": 1.5}, "minMember"),
    ("PodGroup", {"minMember": 1, "minSubGroup": 1}, "spec"),
    ("PodGroup", {"preemptibility": "maybe"}, "preemptibility"),
    ("PodGroup", {"preemptionDelay": "300"}, "preemptionDelay"),
    ("PodGroup", _groups({"name": "a"}, {"name": "a"}), "subGroups[1]"),
    ("PodGroup", _groups({"minMember": 1}), "name"),
    ("PodGroup", _groups({"name": "Big"}), "name"),
    ("PodGroup", _groups({"name": "a", "parent": "a"}), "subGroups[0]"),
    ("PodGroup", _groups({"name": "a", "minMember": 1, "minSubGroup": 1}), "subGroups[0]"),
    ("PodGroup", {"queue": "x" * 300}, "queue"),
    ("BindRequest", {"podName": "p"}, "selectedNode"),
    (
        "BindRequest",
        {"podName": "p", "selectedNode": "n", "receivedResourceType": "Half"},
        "receivedResourceType",
    ),
    ("Topology", {}, "levels"),
    ("Topology", {"levels": []}, "levels"),
    ("Topology", _levels(*(f"a/{i}" for i in range(17))), "levels"),
    ("Topology", _levels("a/b", "a/b"), "spec"),
    ("Topology", _levels("kubernetes.io/hostname", "a/b"), "spec"),
    ("Topology", _levels("not a key"), "nodeLabel"),
    (
        "Topology",
        {"levels": [{"nodeLabel": "a/b", "alias": "x"}, {"nodeLabel": "a/c", "alias": "x"}]},
        "spec",
    ),
    ("Topology", {"levels": [{"nodeLabel": "a"}, {"nodeLabel": "b", "alias": "a"}]}, "spec"),
    ("SchedulingShard", {"kValue": -1}, "kValue"),
    ("SchedulingShard", {"placementStrategy": {"gpu": "anywhere"}}, "gpu"),
    ("SchedulingShard", {"goMemLimitRatio": 0}, "goMemLimitRatio"),
]


@pytest.mark.parametrize(
    ("kind", "spec", "named"), BAD, ids=[f"{kind}-{str(spec)[:40]}" for kind, spec, _ in BAD]
)
def test_bad_samples_are_refused_by_field(
    store: MemoryStore, kind: str, spec: Object, named: str
) -> None:
    resource = BY_KIND[kind]
    meta: Object = {"name": "bad"} | ({"namespace": "default"} if resource.namespaced else {})
    with pytest.raises(Invalid) as refused:
        store.create(resource, {"metadata": meta, "spec": spec})
    causes = refused.value.details["causes"]
    assert any(named in c["field"] for c in causes), causes
    assert all(c["message"] for c in causes)


def test_the_levels_of_a_topology_are_final_but_its_aliases_are_not(store: MemoryStore) -> None:
    store.create(r.TOPOLOGY, {"metadata": {"name": "t"}, "spec": _levels("a/zone", "a/rack")})
    named = {"levels": [{"nodeLabel": "a/zone", "alias": "zone"}, {"nodeLabel": "a/rack"}]}
    assert store.patch(r.TOPOLOGY, "t", {"spec": named})["spec"] == named
    for change in (_levels("a/rack", "a/zone"), _levels("a/zone")):
        with pytest.raises(Invalid, match="immutable"):
            store.patch(r.TOPOLOGY, "t", {"spec": change})


def test_workload_kinds_keep_what_we_do_not_read(store: MemoryStore) -> None:
    spec = {
        "rayVersion": "2.46.0",
        "somethingNew": {"deep": [1, {"x": None, "y": 2}]},
        "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": []}}},
        "workerGroupSpecs": [{"groupName": "w", "template": {"spec": {"anything": True}}}],
    }
    made = store.create(
        r.RAY_CLUSTER, {"metadata": {"name": "c", "namespace": "default"}, "spec": spec}
    )
    assert made["spec"]["somethingNew"] == {"deep": [1, {"y": 2}]}
    group = made["spec"]["workerGroupSpecs"][0]
    assert group["template"] == {"spec": {"anything": True}}
    assert (group["replicas"], group["minReplicas"], group["numOfHosts"]) == (0, 0, 1)


@pytest.mark.parametrize(
    ("group", "named"),
    [
        ({"groupName": "w", "replicas": -1}, "replicas"),
        ({"groupName": "w", "replicas": "two"}, "replicas"),
        ({"groupName": "w", "numOfHosts": 0}, "numOfHosts"),
        ({"replicas": 1}, "groupName"),
        ({"groupName": "w", "rayStartParams": {"num-cpus": 1}}, "num-cpus"),
    ],
)
def test_a_worker_group_that_cannot_be_meant_is_refused(
    store: MemoryStore, group: Object, named: str
) -> None:
    meta = {"name": "bad", "namespace": "default"}
    spec = {"headGroupSpec": {}, "workerGroupSpecs": [group]}
    with pytest.raises(Invalid) as refused:
        store.create(r.RAY_CLUSTER, {"metadata": meta, "spec": spec})
    assert any(named in c["field"] for c in refused.value.details["causes"])


def test_a_union_that_no_crd_can_say_is_an_error() -> None:
    class Odd(msgspec.Struct):
        spec: dict[str, int] | list[int]

    with pytest.raises(TypeError, match="spec"):
        schema_of(Odd)

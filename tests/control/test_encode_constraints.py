"""What a pod asks of its node: labels, taints, ports, volumes, other pods."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.cluster import resources as kinds
from kai_ray.encode import Encoder
from kai_ray.encode.node_rows import Taint, tolerates
from kai_ray.encode.shape import Toleration
from kai_ray.scheduler import decide
from kai_ray.scheduler.reason import Reason

from . import objects
from .encoding import NOW, api_object, encoded

_TAINT = Taint("key", "5", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (("key", "Equal", "5", "NoSchedule"), True),
        (("key", "Equal", "5", ""), True),
        (("key", "Equal", "6", ""), False),
        (("key", "Exists", "", "NoSchedule"), True),
        (("key", "Exists", "", "NoExecute"), False),
        (("", "Exists", "", ""), True),
        (("", "Equal", "5", ""), False),
        (("key", "Gt", "4", ""), True),
        (("key", "Lt", "5", ""), False),
        (("key", "Lt", "x", ""), False),
    ],
)
def test_tolerations(toleration: tuple[str, str, str, str], tolerated: bool) -> None:
    assert tolerates([Toleration(*toleration)], _TAINT) is tolerated


def _required(*needs: dict[str, Any], fields: bool = False) -> dict[str, Any]:
    term = {"matchFields" if fields else "matchExpressions": list(needs)}
    where = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {where: {"nodeSelectorTerms": [term]}}}


def _need(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        ({"nodeSelector": {"size": "9"}}, "ab"),
        ({"nodeSelector": {"size": "none"}}, ""),
        ({"affinity": _required(_need("size", "In", "9", "11"))}, "abc"),
        ({"affinity": _required(_need("size", "NotIn", "9"))}, "cd"),
        ({"affinity": _required(_need("size", "Exists"))}, "abc"),
        ({"affinity": _required(_need("size", "DoesNotExist"))}, "d"),
        ({"affinity": _required(_need("size", "Gt", "10"))}, "c"),
        ({"affinity": _required(_need("size", "Lt", "10"))}, "ab"),
        ({"affinity": _required(_need("metadata.name", "In", "b"), fields=True)}, "b"),
        ({"affinity": _required(_need("metadata.name", "NotIn", "b"), fields=True)}, "acd"),
    ],
)
def test_node_selection(spec: dict[str, Any], nodes: str) -> None:
    sizes = {"a": "9", "b": "9", "c": "11"}
    made = [objects.node(n, 1, labels={"size": sizes[n]} if n in sizes else {}) for n in "abcd"]
    pods = [objects.pod(f"p{i}", "g", **spec) for i in range(4)]
    found = encoded(*made, *pods)
    plan = decide(found.snapshot)
    assert "".join(sorted(found.names.node(n) for n in plan.bind_node)) == nodes


def _port(port: int, ip: str = "", protocol: str = "TCP") -> list[dict[str, Any]]:
    found = {"containerPort": 80, "hostPort": port, "hostIP": ip, "protocol": protocol}
    return [{"name": "c", "ports": [found]}]


@pytest.mark.parametrize(
    ("one", "other", "collide"),
    [
        (_port(80), _port(80), True),
        (_port(80), _port(81), False),
        (_port(80), _port(80, protocol="UDP"), False),
        (_port(80, "10.0.0.1"), _port(80, "10.0.0.2"), False),
        (_port(80, "10.0.0.1"), _port(80, "0.0.0.0"), True),
        (_port(80, "10.0.0.1"), _port(80), True),
    ],
)
def test_host_ports(one: Any, other: Any, collide: bool) -> None:
    pods = [objects.pod(n, "g", containers=c) for n, c in (("p", one), ("q", other))]
    found = encoded(objects.node("n"), *pods)
    assert len(decide(found.snapshot).bind_task) == (1 if collide else 2)


def test_ports_of_a_pod_in_the_hosts_network_are_host_ports() -> None:
    containers = [{"name": "c", "ports": [{"containerPort": 80}]}]
    pods = [objects.pod(n, "g", containers=containers, hostNetwork=True) for n in "pq"]
    assert len(decide(encoded(objects.node("n"), *pods).snapshot).bind_task) == 1


def _claims(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


def _claim(**spec: Any) -> Any:
    return api_object("PersistentVolumeClaim", "data", spec=spec)


_STORAGE = "storage.k8s.io/v1"
_ON_B = {"required": {"nodeSelectorTerms": [{"matchExpressions": [_need("zone", "In", "b")]}]}}
_LATE = api_object(
    "StorageClass",
    "late",
    _STORAGE,
    "",
    volumeBindingMode="WaitForFirstConsumer",
    allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}],
)


@pytest.mark.parametrize(
    ("storage", "node", "reason"),
    [
        ([], None, Reason.VOLUME_CLAIM_NOT_FOUND),
        ([_claim()], "a", None),
        (
            [api_object("PersistentVolumeClaim", "data", spec={"storageClassName": "late"}), _LATE],
            "b",
            0,
        ),
        (
            [
                _claim(storageClassName="now"),
                api_object("StorageClass", "now", _STORAGE, ""),
            ],
            None,
            Reason.VOLUME_CLAIM_NOT_FOUND,
        ),
        (
            [
                _claim(volumeName="pv"),
                api_object("PersistentVolume", "pv", namespace="", spec={"nodeAffinity": _ON_B}),
            ],
            "b",
            None,
        ),
        (
            [_claim(volumeName="pv")],
            None,
            Reason.VOLUME_NODE_CONFLICT,
        ),
    ],
)
def test_volumes(storage: list[Any], node: str | None, reason: Reason | None) -> None:
    nodes = [objects.node(n, labels={"zone": n}) for n in "ab"]
    found = encoded(*nodes, objects.pod("p", "g", **_claims("data")), *storage)
    plan = decide(found.snapshot)
    assert [found.names.node(n) for n in plan.bind_node] == ([node] if node else [])
    if node is None:
        (wait,) = plan.waits
        assert wait.reason is reason
        assert wait.detail.startswith("data")


_BY_ENV = {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}}}]}
_OPTIONAL = {"envFrom": [{"configMapRef": {"name": "cm", "optional": True}}]}
_SOURCE = {"configMap": {"name": "cm"}}
_BY_SOURCE = {"envFrom": [{"configMapRef": {"name": "cm"}}]}


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ({"containers": [{"name": "c", **_BY_ENV}]}, True),
        ({"containers": [{"name": "c", **_BY_SOURCE}]}, True),
        ({"containers": [{"name": "c", **_OPTIONAL}]}, False),
        ({"volumes": [{"name": "v", "configMap": {"name": "cm"}}]}, True),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "cm"}}]}}]},
            True,
        ),
        ({"volumes": [{"name": "v", "configMap": {"name": "kube-root-ca.crt"}}]}, False),
    ],
)
def test_config_maps_that_are_required(spec: dict[str, Any], needed: bool) -> None:
    pod, node = objects.pod("p", "g", **spec), objects.node("n")
    plan = decide(encoded(node, pod).snapshot)
    assert [w.reason for w in plan.waits] == ([Reason.CONFIG_MAP_NOT_FOUND] if needed else [])
    found = encoded(node, pod, api_object("ConfigMap", "cm"))
    assert len(decide(found.snapshot).bind_task) == 1


def _anti(**term: Any) -> dict[str, Any]:
    full = {"topologyKey": "kubernetes.io/hostname", **term}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [full]}}


_APP = {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    ("term", "there", "kept_apart"),
    [
        ({"labelSelector": _APP}, {"app": "web"}, True),
        ({"labelSelector": _APP}, {"app": "other"}, False),
        ({"labelSelector": {}}, {"app": "other"}, True),
        ({}, {"app": "web"}, False),
        ({"labelSelector": _APP, "namespaces": ["far"]}, {"app": "web"}, False),
        ({"labelSelector": _APP, "namespaceSelector": {}}, {"app": "web"}, True),
        ({"labelSelector": _APP, "matchLabelKeys": ["rev"]}, {"app": "web", "rev": "1"}, True),
        ({"labelSelector": _APP, "matchLabelKeys": ["rev"]}, {"app": "web", "rev": "2"}, False),
        ({"labelSelector": _APP, "mismatchLabelKeys": ["rev"]}, {"app": "web", "rev": "1"}, False),
    ],
)
def test_pods_to_keep_away_from(
    term: dict[str, Any], there: dict[str, str], kept_apart: bool
) -> None:
    running = objects.pod("there", scheduler="other", labels=there, node="n", phase="Running")
    pod = objects.pod("p", "g", labels={"rev": "1"}, affinity=_anti(**term))
    plan = decide(encoded(objects.node("n"), running, pod).snapshot)
    assert len(plan.bind_task) == (0 if kept_apart else 1)


def test_labels_that_no_selector_asks_for_make_no_classes() -> None:
    pods = [objects.pod(f"p{i}", "g", labels={"job-name": f"j{i}"}) for i in range(50)]
    assert encoded(objects.node("n"), *pods).snapshot.classes.count == 1


def test_what_cannot_be_seen_is_not_held_against_a_pod() -> None:
    encoder = Encoder()
    for resource, obj in (
        (kinds.NODE, objects.node("n")),
        (kinds.POD_GROUP, objects.podgroup("g")),
        (kinds.POD, objects.pod("p", "g", **_claims("data"))),
    ):
        encoder.apply(resource, None, obj)
    blocked = [encoder.snapshot(NOW).snapshot.classes.rules[0].blocked]
    for known in (False, True):
        encoder.trust(kinds.PVC, known)
        blocked.append(encoder.snapshot(NOW).snapshot.classes.rules[0].blocked)
    assert blocked == [Reason.VOLUME_CLAIM_NOT_FOUND, 0, Reason.VOLUME_CLAIM_NOT_FOUND]

"""What objects become: requests, states, selectors, ports, volumes, queues, shards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key
from kai_ray.encode import EncodeConfig, Encoded, Encoder
from kai_ray.encode import requests as requests_
from kai_ray.encode.node_rows import Taint, tolerates
from kai_ray.encode.shape import Toleration
from kai_ray.scheduler import decide
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import CPU, GPU, MEMORY, TaskState

from . import objects

_NOW = 1_767_225_600.0  # when the objects were made


def _encoded(*changes: Any, config: EncodeConfig | None = None, **more: Any) -> Encoded:
    """Queue "team" and PodGroup "g", then the given objects by kind."""
    encoder = Encoder(config, **more)
    for obj in (objects.queue("team"), objects.podgroup("g"), *changes):
        api_version, kind = obj.get("apiVersion", "v1"), obj.get("kind", "")
        encoder.apply(kinds.BY_KIND[api_version, kind], None, obj)
    return encoder.snapshot(_NOW)


def _object(kind: str, name: str, api: str = "v1", namespace: str = "default", **body: Any) -> Any:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, **body.pop("meta", {})},
        **body,
    }


def _class_of(encoded: Encoded, pod: str) -> int:
    names = encoded.names
    rows = [i for i in range(encoded.snapshot.tasks.count) if names.pod(i).name == pod]
    return int(encoded.snapshot.tasks.klass[rows[0]])


def _container(cpu: str, gpu: str = "", **more: Any) -> dict[str, Any]:
    found = {"cpu": cpu, **({"nvidia.com/gpu": gpu} if gpu else {})}
    return {"name": "c", "resources": {"requests": found}, **more}


_SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [_container("1"), _container("2")]}, 3000),
        ({"containers": [_container("1")], "initContainers": [_container("4")]}, 4000),
        ({"containers": [_container("1")], "initContainers": [_container("4", **_SIDECAR)]}, 5000),
        (  # a sidecar declared before an ordinary one runs beside it
            {
                "containers": [_container("1")],
                "initContainers": [_container("2", **_SIDECAR), _container("3")],
            },
            5000,
        ),
        (  # one declared after it does not
            {
                "containers": [_container("1")],
                "initContainers": [_container("3"), _container("2", **_SIDECAR)],
            },
            3000,
        ),
        ({"containers": [_container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000),
        ({"containers": [_container("1")], "resources": {"requests": {"cpu": "7"}}}, 7000),
        ({"containers": [{"name": "c"}]}, 0),
    ],
)
def test_effective_requests(spec: dict[str, Any], cpu: int) -> None:
    assert dict(requests_.effective(spec)).get("cpu", 0) == cpu


def test_gpus_of_all_vendors_are_one_row_and_others_have_their_own() -> None:
    tpu = objects.pod("tpu", "g", gpus=0, requests={"google.com/tpu": "4"})
    amd = objects.pod("amd", "g", gpus=0, requests={"amd.com/gpu": "2"})
    node = objects.node("n", 0, allocatable={"amd.com/gpu": "8", "google.com/tpu": "4"})
    s = _encoded(node, tpu, amd).snapshot
    assert s.resources == ("cpu", "memory", "gpu", "pods", "google.com/tpu")
    assert s.nodes.allocatable[:, 0].tolist() == [64000, 256 * 2**30, 8, 110, 4]
    assert sorted(s.classes.request[GPU].tolist()) == [0, 2]


def test_a_pod_goes_to_a_gpu_of_its_own_vendor() -> None:
    amd = objects.pod("amd", "g", gpus=0, requests={"amd.com/gpu": "2"})
    nodes = objects.node("nv", 8), objects.node("ro", 0, allocatable={"amd.com/gpu": "2"})
    encoded = _encoded(*nodes, amd)
    plan = decide(encoded.snapshot)
    assert [encoded.names.node(n) for n in plan.bind_node] == ["ro"]


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, TaskState.PENDING),
        ({"schedulingGates": [{"name": "wait"}]}, TaskState.GATED),
        ({"node": "n", "phase": "Pending"}, TaskState.BOUND),
        ({"node": "n", "phase": "Running"}, TaskState.RUNNING),
        ({"node": "n", "phase": "Succeeded"}, TaskState.SUCCEEDED),
    ],
)
def test_states(change: dict[str, Any], state: TaskState) -> None:
    encoded = _encoded(objects.node("n"), objects.pod("p", "g", **change))
    assert encoded.snapshot.tasks.state.tolist() == [state]


def test_a_pod_that_is_overdue_in_deletion_is_stuck_after_two_minutes() -> None:
    leaving = objects.pod("p", "g", node="n", phase="Running")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    encoder = Encoder()
    for resource, obj in (
        (kinds.NODE, objects.node("n")),
        (kinds.POD_GROUP, objects.podgroup("g")),
        (kinds.POD, leaving),
    ):
        encoder.apply(resource, None, obj)
    states = [encoder.snapshot(_NOW + s).snapshot.tasks.state[0] for s in (0, 149, 151)]
    assert states == [TaskState.RELEASING, TaskState.RELEASING, TaskState.STUCK]
    assert encoder.next_stuck_s(_NOW) == _NOW + 150


def test_failed_pods_and_pods_that_leave_before_they_had_a_node_do_not_exist() -> None:
    leaving = objects.pod("q", "g")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    encoded = _encoded(objects.node("n"), objects.pod("p", "g", phase="Failed"), leaving)
    assert encoded.snapshot.tasks.count == 0


def test_foreign_pods_occupy_room_and_are_taken_off_the_total() -> None:
    theirs = objects.pod("x", scheduler="other", node="n", gpus=3, phase="Running")
    pending = objects.pod("y", scheduler="other", gpus=3)
    s = _encoded(objects.node("n"), theirs, pending).snapshot
    assert s.tasks.gang.tolist() == [-1]
    assert s.total[GPU] == 5


def test_the_total_counts_usable_nodes_only() -> None:
    s = _encoded(
        objects.node("a"), objects.node("b", ready=False), objects.node("c", cordoned=True)
    ).snapshot
    assert s.total.tolist() == [64000, 256 * 2**30, 8]


@pytest.mark.parametrize("kind", ["MemoryPressure", "DiskPressure", "PIDPressure"])
def test_a_node_under_pressure_is_not_ready(kind: str) -> None:
    node = objects.node("a")
    node["status"]["conditions"].append({"type": kind, "status": "Unknown"})
    assert not _encoded(node).snapshot.nodes.ready[0]


def test_pods_of_a_managed_namespace_are_ours_without_our_name() -> None:
    space = _object("Namespace", "default", namespace="")
    pod = objects.pod("p", "g", scheduler="default-scheduler")
    assert _encoded(space, pod).snapshot.tasks.count == 0
    space["metadata"]["labels"] = {"kai.scheduler/managed": "true"}
    assert _encoded(space, pod).snapshot.tasks.count == 1


def test_only_what_belongs_to_the_node_pool_is_seen() -> None:
    mine = objects.node("mine", labels={"kai.scheduler/node-pool": "a"})
    config = EncodeConfig(node_pool="a")
    assert _encoded(mine, objects.node("n")).names.nodes == ["n"]
    pool = _encoded(mine, objects.node("n"), config=config)
    assert (pool.names.nodes, pool.names.queues, pool.names.gangs) == (["mine"], [], [])


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
    encoded = _encoded(*made, *pods)
    plan = decide(encoded.snapshot)
    assert "".join(sorted(encoded.names.node(n) for n in plan.bind_node)) == nodes


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
    encoded = _encoded(objects.node("n"), *pods)
    assert len(decide(encoded.snapshot).bind_task) == (1 if collide else 2)


def test_ports_of_a_pod_in_the_hosts_network_are_host_ports() -> None:
    containers = [{"name": "c", "ports": [{"containerPort": 80}]}]
    pods = [objects.pod(n, "g", containers=containers, hostNetwork=True) for n in "pq"]
    assert len(decide(_encoded(objects.node("n"), *pods).snapshot).bind_task) == 1


def _claims(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


def _claim(**spec: Any) -> Any:
    return _object("PersistentVolumeClaim", "data", spec=spec)


_STORAGE = "storage.k8s.io/v1"
_ON_B = {"required": {"nodeSelectorTerms": [{"matchExpressions": [_need("zone", "In", "b")]}]}}
_LATE = _object(
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
            [_object("PersistentVolumeClaim", "data", spec={"storageClassName": "late"}), _LATE],
            "b",
            0,
        ),
        (
            [
                _claim(storageClassName="now"),
                _object("StorageClass", "now", _STORAGE, ""),
            ],
            None,
            Reason.VOLUME_CLAIM_NOT_FOUND,
        ),
        (
            [
                _claim(volumeName="pv"),
                _object("PersistentVolume", "pv", namespace="", spec={"nodeAffinity": _ON_B}),
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
    encoded = _encoded(*nodes, objects.pod("p", "g", **_claims("data")), *storage)
    plan = decide(encoded.snapshot)
    assert [encoded.names.node(n) for n in plan.bind_node] == ([node] if node else [])
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
    plan = decide(_encoded(node, pod).snapshot)
    assert [w.reason for w in plan.waits] == ([Reason.CONFIG_MAP_NOT_FOUND] if needed else [])
    found = _encoded(node, pod, _object("ConfigMap", "cm"))
    assert len(decide(found.snapshot).bind_task) == 1


@pytest.mark.parametrize("key", ["gpu-fraction", "gpu-memory"])
def test_shares_of_a_gpu_wait_with_a_plain_word(key: str) -> None:
    pod = objects.pod("p", "g", gpus=0, annotations={key: "0.5"})
    (wait,) = decide(_encoded(objects.node("n"), pod).snapshot).waits
    assert wait.reason is Reason.MISCONFIGURED
    assert key in wait.detail


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
    plan = decide(_encoded(objects.node("n"), running, pod).snapshot)
    assert len(plan.bind_task) == (0 if kept_apart else 1)


def test_labels_that_no_selector_asks_for_make_no_classes() -> None:
    pods = [objects.pod(f"p{i}", "g", labels={"job-name": f"j{i}"}) for i in range(50)]
    assert _encoded(objects.node("n"), *pods).snapshot.classes.count == 1


def test_queues_keep_their_order_and_what_is_outside_the_tree_is_named() -> None:
    encoded = _encoded(
        objects.queue("b", "a"),
        objects.queue("a"),
        objects.queue("lost", "nowhere"),
        objects.queue("lost-too", "lost"),
        objects.queue("x", "y"),
        objects.queue("y", "x"),
    )
    assert encoded.names.queues == ["a", "team", "b"]
    assert encoded.snapshot.queues.parent.tolist() == [-1, -1, 0]
    named = {p.name: p.mend for p in encoded.problems}
    assert set(named) == {"lost", "lost-too", "x", "y"}
    assert "cycle" in named["x"] and "nowhere" in named["lost"]


def test_a_pause_reaches_all_below() -> None:
    above = objects.queue("a")
    above["metadata"]["annotations"] = {"kai.scheduler/paused": "true"}
    encoded = _encoded(above, objects.queue("b", "a"))
    assert dict(zip(encoded.names.queues, encoded.snapshot.queues.paused, strict=True)) == {
        "a": True,
        "b": True,
        "team": False,
    }


def test_queue_amounts_have_the_units_of_the_arrays() -> None:
    queue = objects.queue("q")
    queue["spec"]["resources"] = {
        "cpu": {"quota": 1500, "limit": -1},
        "memory": {"quota": 2, "limit": 4, "overQuotaWeight": 3},
    }
    encoded = _encoded(queue)
    q, row = encoded.snapshot.queues, encoded.names.queues.index("q")
    assert q.quota[:, row].tolist() == [1500, 2e6, 0]
    assert q.limit[:, row].tolist() == [-1, 4e6, 0]
    assert q.weight[:, row].tolist() == [0, 3, 0]


@pytest.mark.parametrize(
    ("spec", "priority", "preemptible"),
    [
        ({}, 50, True),
        ({"priorityClassName": "high"}, 120, False),
        ({"priorityClassName": "missing"}, 50, True),
        ({"priorityClassName": "high", "preemptibility": "preemptible"}, 120, True),
        ({"preemptibility": "non-preemptible"}, 50, False),
    ],
)
def test_priority_and_preemptibility(
    spec: dict[str, Any], priority: int, preemptible: bool
) -> None:
    high = _object("PriorityClass", "high", "scheduling.k8s.io/v1", "", value=120)
    encoded = _encoded(high, objects.podgroup("h", **spec))
    row = encoded.names.gangs.index(Key("default", "h"))
    gangs = encoded.snapshot.gangs
    assert (gangs.priority[row], gangs.preemptible[row]) == (priority, preemptible)


def test_the_global_default_class_stands_in_for_a_missing_one() -> None:
    default = _object(
        "PriorityClass", "d", "scheduling.k8s.io/v1", "", value=70, globalDefault=True
    )
    assert _encoded(default).snapshot.gangs.priority.tolist() == [70]


def test_a_tree_of_subgroups() -> None:
    subgroups = [
        {"name": "head", "minMember": 1},
        {"name": "workers", "minSubGroup": 1},
        {"name": "w-0", "parent": "workers", "minMember": 2},
        {"name": "w-1", "parent": "workers", "minMember": 0},
    ]
    encoded = _encoded(objects.podgroup("t", minimum=None, subGroups=subgroups))
    row = encoded.names.gangs.index(Key("default", "t"))
    s = encoded.snapshot.subgroups
    mine = np.flatnonzero(s.gang == row)
    root = mine[0]
    assert encoded.names.leaf_names[Key("default", "t")][1:] == ("head", "workers", "w-0", "w-1")
    assert s.leaf[mine].tolist() == [False, True, False, True, True]
    assert s.minimum[mine].tolist() == [2, 1, 1, 2, 0]
    assert (s.parent[mine] - np.where(s.parent[mine] < 0, 0, root)).tolist() == [-1, 0, 0, 2, 2]


def test_pods_find_their_gang_through_the_membership_when_they_carry_none() -> None:
    known: dict[str, str] = {}
    encoder = Encoder(member_of=lambda pod: (known[pod["metadata"]["name"]], "") if known else None)
    encoder.apply(kinds.POD_GROUP, None, objects.podgroup("g"))
    encoder.apply(kinds.POD, None, objects.pod("p"))
    first = encoder.snapshot(_NOW)
    assert (first.snapshot.tasks.count, len(first.orphans)) == (0, 1)
    known["p"] = "g"
    second = encoder.snapshot(_NOW)
    assert (second.snapshot.tasks.gang.tolist(), second.orphans) == ([0], ())


def test_an_assumed_pod_counts_until_it_is_another_pod() -> None:
    encoder = Encoder()
    encoder.apply(kinds.NODE, None, objects.node("n"))
    encoder.apply(kinds.POD_GROUP, None, objects.podgroup("g"))
    pod = objects.pod("p", "g", uid="one")
    encoder.apply(kinds.POD, None, pod)
    encoder.assume(Key("default", "p"), "one", "n")
    assert encoder.snapshot(_NOW).snapshot.tasks.state.tolist() == [TaskState.BINDING]
    encoder.apply(kinds.POD, pod, objects.pod("p", "g", uid="two"))
    assert encoder.snapshot(_NOW).snapshot.tasks.state.tolist() == [TaskState.PENDING]


def test_rows_of_requests_are_named_by_resource() -> None:
    encoded = _encoded(objects.node("n"), objects.pod("p", "g", gpus=2, cpu="500m"))
    c = _class_of(encoded, "p")
    request = encoded.snapshot.classes.request[:, c]
    assert (request[CPU], request[MEMORY], request[GPU]) == (500, 0, 2)


def test_what_cannot_be_seen_is_not_held_against_a_pod() -> None:
    encoder = Encoder()
    for resource, obj in (
        (kinds.NODE, objects.node("n")),
        (kinds.POD_GROUP, objects.podgroup("g")),
        (kinds.POD, objects.pod("p", "g", **_claims("data"))),
    ):
        encoder.apply(resource, None, obj)
    blocked = [encoder.snapshot(_NOW).snapshot.classes.rules[0].blocked]
    for known in (False, True):
        encoder.trust(kinds.PVC, known)
        blocked.append(encoder.snapshot(_NOW).snapshot.classes.rules[0].blocked)
    assert blocked == [Reason.VOLUME_CLAIM_NOT_FOUND, 0, Reason.VOLUME_CLAIM_NOT_FOUND]


def test_large_nodes_are_read() -> None:
    node = objects.node("big", allocatable={"ephemeral-storage": "100Ti", "memory": "24Ti"})
    encoded = _encoded(node)
    assert not encoded.problems
    assert encoded.snapshot.total[MEMORY] == 24 * 2**40

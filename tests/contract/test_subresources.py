from __future__ import annotations

import copy

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import (
    AlreadyExists,
    ApiError,
    Conflict,
    Invalid,
    NotFound,
    Object,
    Port,
    TooManyRequests,
    Write,
)
from tests.contract.objects import becomes, config, is_gone, owned_by, pod


def test_status_and_spec_are_written_apart(port: Port, ns: str) -> None:
    group = {"metadata": {"name": "g", "namespace": ns}, "spec": {"minMember": 2}}
    made = port.create(r.POD_GROUP, {**group, "status": {"running": 9}})
    assert "status" not in made, "a new object has no status of the user's making"
    both = copy.deepcopy(made)
    both["spec"]["minMember"] = 3
    both["status"] = {"running": 1}
    after = port.update(r.POD_GROUP, both, subresource="status")
    assert (after["spec"], after["status"]) == ({"minMember": 2}, {"running": 1})
    both = copy.deepcopy(after)
    both["spec"]["minMember"] = 4
    both["status"] = {"running": 7}
    after = port.update(r.POD_GROUP, both)
    assert (after["spec"], after["status"]) == ({"minMember": 4}, {"running": 1})


def test_a_stale_status_write_is_refused(port: Port, ns: str) -> None:
    made = port.create(r.POD, pod(ns, "p"))
    port.patch(r.POD, "p", {"metadata": {"labels": {"a": "b"}}}, ns)
    stale = copy.deepcopy(made)
    stale["status"] = {"phase": "Running"}
    with pytest.raises(Conflict):
        port.update(r.POD, stale, subresource="status")


def test_kinds_without_status_have_no_such_subresource(port: Port, ns: str) -> None:
    port.create(r.CONFIG_MAP, config(ns, "m"))
    with pytest.raises(NotFound):
        port.patch(r.CONFIG_MAP, "m", {"status": {}}, ns, subresource="status")


def test_a_bind_gives_the_pod_its_node_and_what_it_carries(port: Port, ns: str) -> None:
    made = port.create(r.POD, pod(ns, "p", labels={"mine": "1"}))
    port.bind(
        ns,
        "p",
        "node-1",
        uid=made["metadata"]["uid"],
        labels={"kai.scheduler/subgroup-name": "workers"},
        annotations={"pod-group-name": "g"},
    )
    bound = port.get(r.POD, "p", ns)
    assert bound["spec"]["nodeName"] == "node-1"
    assert bound["metadata"]["labels"] == {"mine": "1", "kai.scheduler/subgroup-name": "workers"}
    assert bound["metadata"]["annotations"] == {"pod-group-name": "g"}
    (scheduled,) = (c for c in bound["status"]["conditions"] if c["type"] == "PodScheduled")
    assert scheduled["status"] == "True"


def test_a_pod_is_bound_once(port: Port, ns: str) -> None:
    port.create(r.POD, pod(ns, "p"))
    port.bind(ns, "p", "node-1")
    with pytest.raises(Conflict):
        port.bind(ns, "p", "node-2")
    assert port.get(r.POD, "p", ns)["spec"]["nodeName"] == "node-1"


def test_a_bind_of_another_pod_of_that_name_is_refused(port: Port, ns: str) -> None:
    old = port.create(r.POD, pod(ns, "p"))
    port.delete(r.POD, "p", ns)
    port.create(r.POD, pod(ns, "p"))
    with pytest.raises(Conflict):
        port.bind(ns, "p", "node-1", uid=old["metadata"]["uid"])


def test_a_bind_of_another_state_of_the_pod_is_refused(port: Port, ns: str) -> None:
    seen = port.create(r.POD, pod(ns, "p"))["metadata"]["resourceVersion"]
    changed = port.patch(r.POD, "p", {"metadata": {"annotations": {"a": "b"}}}, ns)
    with pytest.raises(Conflict):
        port.bind(ns, "p", "node-1", resource_version=seen)
    port.bind(ns, "p", "node-1", resource_version=changed["metadata"]["resourceVersion"])


def test_a_gated_pod_is_not_bound(port: Port, ns: str) -> None:
    port.create(r.POD, pod(ns, "p", schedulingGates=[{"name": "example.com/wait"}]))
    with pytest.raises(ApiError):
        port.bind(ns, "p", "node-1")
    port.patch(r.POD, "p", {"spec": {"schedulingGates": []}}, ns)
    port.bind(ns, "p", "node-1")


def test_a_missing_pod_is_not_bound(port: Port, ns: str) -> None:
    with pytest.raises(NotFound):
        port.bind(ns, "none", "node-1")


def _running(port: Port, ns: str, name: str, owner: Object) -> None:
    obj = owned_by(pod(ns, name, labels={"a": "b"}, terminationGracePeriodSeconds=0), owner)
    obj["metadata"]["ownerReferences"][0]["controller"] = True
    port.create(r.POD, obj)
    port.bind(ns, name, "node-1")
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    port.patch(r.POD, name, {"status": ready}, ns, subresource="status")


@pytest.mark.parametrize(
    "budget", [{"minAvailable": 2}, {"maxUnavailable": 1}, {"maxUnavailable": "33%"}]
)
def test_an_eviction_honours_the_budget(port: Port, ns: str, budget: Object) -> None:
    owner = port.create(r.REPLICA_SET, _replicas(ns, "db", 3))
    for name in "abc":
        _running(port, ns, name, owner)
    spec = {**budget, "selector": {"matchLabels": {"a": "b"}}}
    port.create(r.PDB, {"metadata": {"name": "db", "namespace": ns}, "spec": spec})
    assert becomes(lambda: port.evict(ns, "a"))
    assert is_gone(port, r.POD, "a", ns)
    with pytest.raises(TooManyRequests):
        port.evict(ns, "b")
    assert not is_gone(port, r.POD, "b", ns)
    _running(port, ns, "d", owner)
    assert becomes(lambda: port.evict(ns, "b"))


def test_a_pod_that_does_not_run_is_evicted_whatever_the_budget(port: Port, ns: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}
    port.create(r.PDB, {"metadata": {"name": "db", "namespace": ns}, "spec": spec})
    port.create(r.POD, pod(ns, "waiting", labels={"app": "db"}))
    port.evict(ns, "waiting")
    assert is_gone(port, r.POD, "waiting", ns)


def _replicas(ns: str, name: str, count: int = 2) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": ns},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            },
        },
    }


def test_scale_changes_the_replicas(port: Port, ns: str) -> None:
    port.create(r.REPLICA_SET, _replicas(ns, "web"))
    scale = port.patch(r.REPLICA_SET, "web", {"spec": {"replicas": 5}}, ns, subresource="scale")
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 5)
    assert port.get(r.REPLICA_SET, "web", ns)["spec"]["replicas"] == 5
    with pytest.raises(Invalid):
        port.patch(r.REPLICA_SET, "web", {"spec": {"replicas": -1}}, ns, subresource="scale")


def test_a_batch_answers_each_write(port: Port, ns: str) -> None:
    port.create(r.CONFIG_MAP, config(ns, "b"))
    writes = [Write(port.create, (r.CONFIG_MAP, config(ns, name))) for name in "abc"]
    first, second, third = port.batch(writes)
    assert first["metadata"]["name"] == "a"
    assert isinstance(second, AlreadyExists)
    assert third["metadata"]["name"] == "c"
    assert port.batch([]) == []

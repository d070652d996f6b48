from __future__ import annotations

from typing import Any

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import ApiError, Conflict, Forbidden, Invalid, NotFound, Object, Port
from tests.contract.objects import config, eventually, is_gone, owned_by, pod


def test_a_plain_object_goes_at_once(port: Port, ns: str) -> None:
    port.create(r.CONFIG_MAP, config(ns, "m"))
    port.delete(r.CONFIG_MAP, "m", ns)
    assert is_gone(port, r.CONFIG_MAP, "m", ns)


def test_finalizers_hold_an_object_until_the_last_one_goes(port: Port, ns: str) -> None:
    obj = config(ns, "m")
    obj["metadata"]["finalizers"] = ["x.io/a", "x.io/b"]
    port.create(r.CONFIG_MAP, obj)
    port.delete(r.CONFIG_MAP, "m", ns)
    assert port.get(r.CONFIG_MAP, "m", ns)["metadata"]["deletionTimestamp"]
    port.patch(r.CONFIG_MAP, "m", {"metadata": {"finalizers": ["x.io/b"]}}, ns)
    assert not is_gone(port, r.CONFIG_MAP, "m", ns)
    with pytest.raises((Invalid, Forbidden)):
        port.patch(r.CONFIG_MAP, "m", {"metadata": {"finalizers": ["x.io/b", "x.io/new"]}}, ns)
    port.patch(r.CONFIG_MAP, "m", {"metadata": {"finalizers": []}}, ns)
    assert is_gone(port, r.CONFIG_MAP, "m", ns)


@pytest.mark.parametrize("which", ["uid", "resource_version"])
def test_a_deletion_may_demand_who_and_which_version(port: Port, ns: str, which: str) -> None:
    made = port.create(r.CONFIG_MAP, config(ns, "m"))["metadata"]
    wrong: Any = {"uid": "0" * 36} if which == "uid" else {"resource_version": "1"}
    with pytest.raises(Conflict):
        port.delete(r.CONFIG_MAP, "m", ns, **wrong)
    if which == "uid":
        port.delete(r.CONFIG_MAP, "m", ns, uid=made["uid"])
    else:
        port.delete(r.CONFIG_MAP, "m", ns, resource_version=made["resourceVersion"])
    assert is_gone(port, r.CONFIG_MAP, "m", ns)


def test_a_running_pod_gets_its_grace_and_the_kubelet_ends_it(port: Port, ns: str) -> None:
    port.create(r.POD, pod(ns, "p", terminationGracePeriodSeconds=20))
    port.bind(ns, "p", "node-1")
    port.delete(r.POD, "p", ns)
    meta = port.get(r.POD, "p", ns)["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 20
    assert meta["deletionTimestamp"] > meta["creationTimestamp"]
    port.delete(r.POD, "p", ns, grace_s=5)
    assert port.get(r.POD, "p", ns)["metadata"]["deletionGracePeriodSeconds"] == 5
    port.delete(r.POD, "p", ns, grace_s=0)
    assert is_gone(port, r.POD, "p", ns)


@pytest.mark.parametrize("phase", ["unbound", "Succeeded", "Failed"])
def test_a_pod_that_no_kubelet_runs_goes_at_once(port: Port, ns: str, phase: str) -> None:
    port.create(r.POD, pod(ns, "p"))
    if phase != "unbound":
        port.bind(ns, "p", "node-1")
        port.patch(r.POD, "p", {"status": {"phase": phase}}, ns, subresource="status")
    port.delete(r.POD, "p", ns)
    assert is_gone(port, r.POD, "p", ns)


# --- owners --------------------------------------------------------------------------------------


def _group(port: Port, ns: str, name: str) -> Object:
    return port.create(r.POD_GROUP, {"metadata": {"name": name, "namespace": ns}, "spec": {}})


def test_what_an_owner_owns_goes_with_it_down_the_line(port: Port, ns: str) -> None:
    owner = _group(port, ns, "owner")
    middle = port.create(r.CONFIG_MAP, owned_by(config(ns, "middle"), owner))
    port.create(r.POD, owned_by(pod(ns, "leaf"), middle))
    port.create(r.POD, pod(ns, "stranger"))
    port.delete(r.POD_GROUP, "owner", ns)
    assert eventually(lambda: is_gone(port, r.POD, "leaf", ns))
    assert is_gone(port, r.CONFIG_MAP, "middle", ns)
    assert not is_gone(port, r.POD, "stranger", ns)


def test_an_object_with_another_owner_stays(port: Port, ns: str) -> None:
    first, second = _group(port, ns, "first"), _group(port, ns, "second")
    port.create(r.CONFIG_MAP, owned_by(owned_by(config(ns, "m"), first), second))
    port.delete(r.POD_GROUP, "first", ns)

    def owners() -> list[str]:
        refs = port.get(r.CONFIG_MAP, "m", ns)["metadata"].get("ownerReferences", [])
        return [ref["name"] for ref in refs]

    assert eventually(lambda: owners() == ["second"])
    port.delete(r.POD_GROUP, "second", ns)
    assert eventually(lambda: is_gone(port, r.CONFIG_MAP, "m", ns))


def test_a_new_owner_of_the_same_name_is_another_owner(port: Port, ns: str) -> None:
    old = _group(port, ns, "owner")
    port.delete(r.POD_GROUP, "owner", ns)
    _group(port, ns, "owner")
    port.create(r.CONFIG_MAP, owned_by(config(ns, "m"), old))
    assert eventually(lambda: is_gone(port, r.CONFIG_MAP, "m", ns))


def test_an_owner_of_an_unknown_kind_is_not_judged(port: Port, ns: str) -> None:
    owner = {
        "apiVersion": "example.com/v1",
        "kind": "Flow",
        "metadata": {"name": "f", "uid": "1" * 36},
    }
    port.create(r.CONFIG_MAP, owned_by(config(ns, "m"), owner))
    assert not is_gone(port, r.CONFIG_MAP, "m", ns)


def test_orphans_stay(port: Port, ns: str) -> None:
    owner = _group(port, ns, "owner")
    port.create(r.CONFIG_MAP, owned_by(config(ns, "m"), owner))
    port.delete(r.POD_GROUP, "owner", ns, propagation="Orphan")
    assert eventually(lambda: is_gone(port, r.POD_GROUP, "owner", ns))
    assert "ownerReferences" not in port.get(r.CONFIG_MAP, "m", ns)["metadata"]


def test_in_the_foreground_the_owner_goes_last(port: Port, ns: str) -> None:
    owner = _group(port, ns, "owner")
    held = owned_by(config(ns, "m"), owner, block=True)
    held["metadata"]["finalizers"] = ["x.io/slow"]
    port.create(r.CONFIG_MAP, held)
    port.delete(r.POD_GROUP, "owner", ns, propagation="Foreground")
    assert eventually(lambda: "deletionTimestamp" in port.get(r.CONFIG_MAP, "m", ns)["metadata"])
    assert "deletionTimestamp" in port.get(r.POD_GROUP, "owner", ns)["metadata"]
    port.patch(r.CONFIG_MAP, "m", {"metadata": {"finalizers": []}}, ns)
    assert eventually(lambda: is_gone(port, r.POD_GROUP, "owner", ns))


def test_in_the_foreground_only_blocking_dependents_are_waited_for(port: Port, ns: str) -> None:
    owner = _group(port, ns, "owner")
    held = owned_by(config(ns, "m"), owner, block=False)
    held["metadata"]["finalizers"] = ["x.io/slow"]
    port.create(r.CONFIG_MAP, held)
    port.delete(r.POD_GROUP, "owner", ns, propagation="Foreground")
    assert eventually(lambda: is_gone(port, r.POD_GROUP, "owner", ns))
    port.patch(r.CONFIG_MAP, "m", {"metadata": {"finalizers": []}}, ns)


def test_an_owner_reference_says_whom_it_means(port: Port, ns: str) -> None:
    obj = config(ns, "m")
    obj["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]
    with pytest.raises(ApiError, match="uid"):
        port.create(r.CONFIG_MAP, obj)


# --- namespaces ----------------------------------------------------------------------------------


def test_nothing_is_created_in_a_namespace_that_is_not_there(port: Port) -> None:
    with pytest.raises(NotFound, match="no-such-place"):
        port.create(r.POD, pod("no-such-place", "p"))


def test_a_new_namespace_is_active_and_has_its_account(port: Port, ns: str) -> None:
    found = port.get(r.NAMESPACE, ns)
    assert found["status"]["phase"] == "Active"
    assert found["metadata"]["labels"]["kubernetes.io/metadata.name"] == ns
    assert eventually(lambda: not is_gone(port, r.SERVICE_ACCOUNT, "default", ns))


def test_a_namespace_takes_its_contents_along_and_waits_for_them(port: Port, ns: str) -> None:
    held = config(ns, "held")
    held["metadata"]["finalizers"] = ["x.io/slow"]
    port.create(r.CONFIG_MAP, held)
    port.create(r.CONFIG_MAP, config(ns, "free"))
    port.create(r.POD, pod(ns, "p"))
    port.delete(r.NAMESPACE, ns)
    assert eventually(lambda: is_gone(port, r.CONFIG_MAP, "free", ns))
    assert eventually(lambda: is_gone(port, r.POD, "p", ns))
    assert port.get(r.NAMESPACE, ns)["status"]["phase"] == "Terminating"
    with pytest.raises(Forbidden, match="terminated"):
        port.create(r.CONFIG_MAP, config(ns, "late"))
    port.patch(r.CONFIG_MAP, "held", {"metadata": {"finalizers": []}}, ns)
    assert eventually(lambda: is_gone(port, r.NAMESPACE, ns))

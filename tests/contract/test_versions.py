from __future__ import annotations

import copy

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import AlreadyExists, Conflict, NotFound, Object, Port
from tests.contract.objects import config, pod


def test_a_new_object_gets_an_identity(port: Port, ns: str) -> None:
    made = port.create(r.CONFIG_MAP, config(ns, "a", key="1"))
    meta = made["metadata"]
    assert len(meta["uid"]) == 36
    assert meta["creationTimestamp"].endswith("Z")
    assert int(meta["resourceVersion"]) > 0
    assert port.get(r.CONFIG_MAP, "a", ns)["metadata"]["uid"] == meta["uid"]


def test_versions_grow_over_all_kinds(port: Port, ns: str) -> None:
    versions = [
        int(port.create(r.CONFIG_MAP, config(ns, "a"))["metadata"]["resourceVersion"]),
        int(port.create(r.POD, pod(ns, "b"))["metadata"]["resourceVersion"]),
        int(port.create(r.CONFIG_MAP, config(ns, "c"))["metadata"]["resourceVersion"]),
    ]
    assert versions == sorted(set(versions))


def test_a_name_is_taken_once(port: Port, ns: str) -> None:
    port.create(r.CONFIG_MAP, config(ns, "a"))
    with pytest.raises(AlreadyExists):
        port.create(r.CONFIG_MAP, config(ns, "a"))


def test_generated_names_differ_and_keep_their_stem(port: Port, ns: str) -> None:
    names = {port.create(r.POD, pod(ns))["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("pod-") and len(name) == len("pod-") + 5 for name in names)


def test_a_stale_write_is_refused(port: Port, ns: str) -> None:
    first = port.create(r.CONFIG_MAP, config(ns, "a", key="1"))
    mine, theirs = copy.deepcopy(first), copy.deepcopy(first)
    theirs["data"]["key"] = "2"
    port.update(r.CONFIG_MAP, theirs)
    mine["data"]["key"] = "3"
    with pytest.raises(Conflict):
        port.update(r.CONFIG_MAP, mine)
    assert port.get(r.CONFIG_MAP, "a", ns)["data"] == {"key": "2"}


def test_a_patch_may_demand_a_version(port: Port, ns: str) -> None:
    first = port.create(r.CONFIG_MAP, config(ns, "a", key="1"))
    version = first["metadata"]["resourceVersion"]
    port.patch(r.CONFIG_MAP, "a", {"data": {"key": "2"}}, ns)
    stale = {"metadata": {"resourceVersion": version}, "data": {"key": "3"}}
    with pytest.raises(Conflict):
        port.patch(r.CONFIG_MAP, "a", stale, ns)


def test_a_write_that_names_no_version_replaces(port: Port, ns: str) -> None:
    port.create(r.CONFIG_MAP, config(ns, "a", key="1", other="x"))
    port.update(r.CONFIG_MAP, config(ns, "a", key="2"))
    assert port.get(r.CONFIG_MAP, "a", ns)["data"] == {"key": "2"}


def test_a_write_that_changes_nothing_keeps_the_version(port: Port, ns: str) -> None:
    first = port.create(r.CONFIG_MAP, config(ns, "a", key="1"))
    again = port.update(r.CONFIG_MAP, copy.deepcopy(first))
    patched = port.patch(r.CONFIG_MAP, "a", {"data": {"key": "1"}}, ns)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert patched["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_another_object_of_the_same_name_is_not_updated(port: Port, ns: str) -> None:
    old = port.create(r.CONFIG_MAP, config(ns, "a"))
    port.delete(r.CONFIG_MAP, "a", ns)
    port.create(r.CONFIG_MAP, config(ns, "a"))
    late = copy.deepcopy(old)
    late["data"] = {"key": "late"}
    with pytest.raises(Conflict):
        port.update(r.CONFIG_MAP, late)


def test_generation_counts_changes_of_the_spec_only(port: Port, ns: str) -> None:
    group = {"metadata": {"name": "g", "namespace": ns}, "spec": {"minMember": 2}}
    assert port.create(r.POD_GROUP, group)["metadata"]["generation"] == 1
    labelled = port.patch(r.POD_GROUP, "g", {"metadata": {"labels": {"a": "b"}}}, ns)
    assert labelled["metadata"]["generation"] == 1
    status = port.patch(r.POD_GROUP, "g", {"status": {"running": 1}}, ns, subresource="status")
    assert status["metadata"]["generation"] == 1
    assert (
        port.patch(r.POD_GROUP, "g", {"spec": {"minMember": 3}}, ns)["metadata"]["generation"] == 2
    )


def test_what_the_server_owns_cannot_be_written(port: Port, ns: str) -> None:
    first = port.create(r.CONFIG_MAP, config(ns, "a"))["metadata"]
    port.patch(r.CONFIG_MAP, "a", {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}, ns)
    now = port.get(r.CONFIG_MAP, "a", ns)["metadata"]
    assert now["creationTimestamp"] == first["creationTimestamp"]


@pytest.mark.parametrize("verb", ["get", "update", "patch", "delete"])
def test_what_is_not_there_is_not_found(port: Port, ns: str, verb: str) -> None:
    with pytest.raises(NotFound):
        if verb == "get":
            port.get(r.CONFIG_MAP, "none", ns)
        elif verb == "update":
            port.update(r.CONFIG_MAP, config(ns, "none"))
        elif verb == "patch":
            port.patch(r.CONFIG_MAP, "none", {"data": {}}, ns)
        else:
            port.delete(r.CONFIG_MAP, "none", ns)


def test_reads_and_writes_do_not_share_what_the_caller_holds(port: Port, ns: str) -> None:
    mine = config(ns, "a", key="1")
    port.create(r.CONFIG_MAP, mine)
    mine["data"]["key"] = "changed by the caller"
    assert port.get(r.CONFIG_MAP, "a", ns)["data"] == {"key": "1"}


def test_dry_runs_answer_like_writes_and_store_nothing(port: Port, ns: str) -> None:
    made = port.create(r.CONFIG_MAP, config(ns, "a", key="1"), dry_run=True)
    assert made["metadata"]["uid"]
    with pytest.raises(NotFound):
        port.get(r.CONFIG_MAP, "a", ns)
    port.create(r.CONFIG_MAP, config(ns, "b", key="1"))
    assert port.update(r.CONFIG_MAP, config(ns, "b", key="2"), dry_run=True)["data"] == {"key": "2"}
    patched = port.patch(r.CONFIG_MAP, "b", {"data": {"key": "3"}}, ns, dry_run=True)
    assert patched["data"] == {"key": "3"}
    port.delete(r.CONFIG_MAP, "b", ns, dry_run=True)
    assert port.get(r.CONFIG_MAP, "b", ns)["data"] == {"key": "1"}


def test_empty_maps_and_lists_of_metadata_are_not_kept(port: Port, ns: str) -> None:
    empty: Object = {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}
    made = config(ns, "plain", a="1")
    made["metadata"] |= empty
    kept = port.create(r.CONFIG_MAP, made)
    assert not empty.keys() & kept["metadata"].keys()
    patch = {"metadata": {"annotations": {"a": "b"}}}
    port.patch(r.CONFIG_MAP, "plain", patch, ns)
    patch = {"metadata": {"annotations": {"a": None}}}
    assert "annotations" not in port.patch(r.CONFIG_MAP, "plain", patch, ns)["metadata"]

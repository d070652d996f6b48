from __future__ import annotations

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import ApiError, BadRequest, Port
from tests.contract.objects import config, pod

LABELS = {
    "a": {"tier": "web", "size": "3"},
    "b": {"tier": "db", "size": "12"},
    "c": {"tier": "web", "canary": ""},
    "d": {},
}


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("", "abcd"),
        ("tier=web", "ac"),
        ("tier==web", "ac"),
        ("tier!=web", "bd"),
        ("tier in (web, db)", "abc"),
        ("tier notin (web)", "bd"),
        ("tier", "abc"),
        ("!tier", "d"),
        ("canary=", "c"),
        ("tier=web,canary", "c"),
        ("tier=web,!canary", "a"),
        ("size>5", "b"),
        ("size<5", "a"),
        ("tier in (web),size notin (3)", "c"),
    ],
)
def test_labels_select(port: Port, ns: str, selector: str, found: str) -> None:
    for name, labels in LABELS.items():
        port.create(r.POD, pod(ns, name, labels=labels))
    names = [o["metadata"]["name"] for o in port.list(r.POD, ns, labels=selector).items]
    assert "".join(names) == found


@pytest.mark.parametrize("selector", ["a in", "a in (b", "=b", "a=b=c", "a b", "-a=b", "a>x"])
def test_a_selector_that_cannot_be_read_is_a_bad_request(
    port: Port, ns: str, selector: str
) -> None:
    with pytest.raises(BadRequest):
        port.list(r.POD, ns, labels=selector)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name!=a", "bc"),
        ("spec.nodeName=n1", "a"),
        ("spec.nodeName=", "bc"),
        ("status.phase=Pending,spec.nodeName!=n1", "bc"),
        ("status.phase=Running", "b"),
        ("spec.schedulerName=mine", "c"),
        ("metadata.namespace=default", ""),
    ],
)
def test_fields_select(port: Port, ns: str, selector: str, found: str) -> None:
    port.create(r.POD, pod(ns, "a"))
    port.create(r.POD, pod(ns, "b"))
    port.create(r.POD, pod(ns, "c", schedulerName="mine"))
    port.bind(ns, "a", "n1")
    if "Running" in selector:
        port.patch(r.POD, "b", {"status": {"phase": "Running"}}, ns, subresource="status")
    names = [o["metadata"]["name"] for o in port.list(r.POD, ns, fields=selector).items]
    assert "".join(names) == found


def test_events_select_by_what_they_are_about(port: Port, ns: str) -> None:
    for name, about in (("e1", "job-a"), ("e2", "job-b")):
        event = {
            "metadata": {"name": name, "namespace": ns},
            "involvedObject": {"kind": "Job", "name": about, "namespace": ns, "uid": about},
            "reason": "Scheduled",
            "type": "Normal",
        }
        port.create(r.EVENT, event)
    fields = "involvedObject.kind=Job,involvedObject.name=job-a,type=Normal"
    assert [e["metadata"]["name"] for e in port.list(r.EVENT, ns, fields=fields).items] == ["e1"]


def test_a_field_that_cannot_select_is_a_bad_request(port: Port, ns: str) -> None:
    with pytest.raises(BadRequest, match=r"spec\.containers"):
        port.list(r.POD, ns, fields="spec.containers=x")


def test_custom_resources_select_by_the_fields_they_declare(port: Port, ns: str) -> None:
    for name, queue in (("a", "red"), ("b", "blue")):
        group = {"metadata": {"name": name, "namespace": ns}, "spec": {"queue": queue}}
        port.create(r.POD_GROUP, group)
    found = port.list(r.POD_GROUP, ns, fields="spec.queue=blue").items
    assert [o["metadata"]["name"] for o in found] == ["b"]
    with pytest.raises(BadRequest):
        port.list(r.POD_GROUP, ns, fields="spec.minMember=1")


def test_pages_join_to_the_whole(port: Port, ns: str) -> None:
    names = [f"c{i:02}" for i in range(23)]
    for name in names:
        port.create(r.CONFIG_MAP, config(ns, name))
    found, token, sizes = [], "", []
    while True:
        page = port.list(r.CONFIG_MAP, ns, limit=5, continue_token=token)
        found += [o["metadata"]["name"] for o in page.items]
        sizes.append(len(page.items))
        token = page.continue_token
        if not token:
            break
    assert [n for n in found if n != "kube-root-ca.crt"] == names
    assert max(sizes) == 5


def test_pages_show_the_moment_of_the_first(port: Port, ns: str) -> None:
    for name in "abcdef":
        port.create(r.CONFIG_MAP, config(ns, name, key="old"))
    first = port.list(r.CONFIG_MAP, ns, limit=2)
    port.delete(r.CONFIG_MAP, "e", ns)
    port.patch(r.CONFIG_MAP, "f", {"data": {"key": "new"}}, ns)
    port.create(r.CONFIG_MAP, config(ns, "dd"))
    rest = port.list(r.CONFIG_MAP, ns, limit=100, continue_token=first.continue_token)
    names = [o["metadata"]["name"] for o in (*first.items, *rest.items)]
    assert [n for n in names if n != "kube-root-ca.crt"] == list("abcdef")
    (f,) = (o for o in rest.items if o["metadata"]["name"] == "f")
    assert f["data"] == {"key": "old"}
    assert rest.resource_version == first.resource_version


def test_a_token_that_is_no_token_is_refused(port: Port, ns: str) -> None:
    with pytest.raises(ApiError) as refused:
        port.list(r.CONFIG_MAP, ns, limit=1, continue_token="bm90IGEgdG9rZW4=")
    assert refused.value.code == 400


def test_all_namespaces_are_listed_in_order(port: Port, ns: str) -> None:
    port.create(r.POD, pod("default", "zz"))
    port.create(r.POD, pod(ns, "aa"))
    keys = [(o["metadata"]["namespace"], o["metadata"]["name"]) for o in port.list(r.POD).items]
    assert keys == sorted(keys)
    assert {("default", "zz"), (ns, "aa")} <= set(keys)
    port.delete(r.POD, "zz", "default")

from __future__ import annotations

import threading

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Gone, Port
from tests.contract.backends import Backend
from tests.contract.objects import config, eventually, pod, quiet, read, seen


def _version(port: Port, ns: str) -> str:
    return port.list(r.CONFIG_MAP, ns).resource_version


def test_changes_after_a_version_come_in_order(port: Port, ns: str) -> None:
    port.create(r.CONFIG_MAP, config(ns, "before"))
    watch = port.watch(r.CONFIG_MAP, ns, resource_version=_version(port, ns))
    port.create(r.CONFIG_MAP, config(ns, "a"))
    port.patch(r.CONFIG_MAP, "a", {"data": {"key": "1"}}, ns)
    port.create(r.CONFIG_MAP, config(ns, "b"))
    port.delete(r.CONFIG_MAP, "a", ns)
    events = read(watch, 4)
    watch.close()
    assert seen(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    versions = [int(e.object["metadata"]["resourceVersion"]) for e in events]
    assert versions == sorted(set(versions))
    assert events[3].object["data"] == {"key": "1"}, "a deletion shows the last state"


def test_a_watch_can_begin_in_the_past(port: Port, ns: str) -> None:
    start = _version(port, ns)
    port.create(r.CONFIG_MAP, config(ns, "a"))
    port.delete(r.CONFIG_MAP, "a", ns)
    watch = port.watch(r.CONFIG_MAP, ns, resource_version=start)
    assert seen(read(watch, 2)) == [("ADDED", "a"), ("DELETED", "a")]
    watch.close()


def test_a_watch_without_a_version_begins_with_what_is_there(port: Port, ns: str) -> None:
    group = {"metadata": {"name": "a", "namespace": ns}, "spec": {}}
    port.create(r.POD_GROUP, group)
    watch = port.watch(r.POD_GROUP, ns)
    assert seen(read(watch, 1)) == [("ADDED", "a")]
    port.delete(r.POD_GROUP, "a", ns)
    assert seen(read(watch, 1)) == [("DELETED", "a")]
    watch.close()


def test_a_watch_sees_its_namespace_only(port: Port, ns: str) -> None:
    watch = port.watch(r.POD, ns, resource_version=_version(port, ns))
    port.create(r.POD, pod("default", "elsewhere"))
    port.create(r.POD, pod(ns, "here"))
    assert seen(read(watch, 1)) == [("ADDED", "here")]
    assert quiet(watch)
    watch.close()
    port.delete(r.POD, "elsewhere", "default")


def test_what_enters_a_selection_is_added_and_what_leaves_is_deleted(port: Port, ns: str) -> None:
    watch = port.watch(r.POD, ns, resource_version=_version(port, ns), labels="team=red")
    port.create(r.POD, pod(ns, "a", labels={"team": "blue"}))
    port.patch(r.POD, "a", {"metadata": {"labels": {"team": "red"}}}, ns)
    port.patch(r.POD, "a", {"metadata": {"labels": {"more": "x"}}}, ns)
    port.patch(r.POD, "a", {"metadata": {"labels": {"team": "blue"}}}, ns)
    port.delete(r.POD, "a", ns)
    assert seen(read(watch, 3)) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert quiet(watch)
    watch.close()


def test_fields_select_in_a_watch(port: Port, ns: str) -> None:
    watch = port.watch(
        r.POD, ns, resource_version=_version(port, ns), fields="spec.nodeName=node-1"
    )
    port.create(r.POD, pod(ns, "a"))
    port.create(r.POD, pod(ns, "b"))
    port.bind(ns, "a", "node-1")
    port.bind(ns, "b", "node-2")
    assert seen(read(watch, 1)) == [("ADDED", "a")]
    assert quiet(watch)
    watch.close()


def test_a_forgotten_version_is_gone(backend: Backend, ns: str) -> None:
    if backend.compact is None:
        pytest.skip("this backend cannot be told to compact")
    port = backend.port
    start = _version(port, ns)
    port.create(r.CONFIG_MAP, config(ns, "a"))
    backend.compact()
    port.create(r.CONFIG_MAP, config(ns, "b"))
    with pytest.raises(Gone):
        watch = port.watch(r.CONFIG_MAP, ns, resource_version=start)
        read(watch, 1)
    watch = port.watch(r.CONFIG_MAP, ns, resource_version=_version(port, ns))
    port.create(r.CONFIG_MAP, config(ns, "c"))
    assert seen(read(watch, 1)) == [("ADDED", "c")]
    watch.close()


def test_a_sleeping_reader_is_woken(port: Port, ns: str) -> None:
    woken = threading.Event()
    watch = port.watch(r.CONFIG_MAP, ns, resource_version=_version(port, ns), on_event=woken.set)
    woken.clear()
    port.create(r.CONFIG_MAP, config(ns, "a"))
    assert woken.wait(5)
    assert seen(read(watch, 1)) == [("ADDED", "a")]
    watch.close()


def test_every_watch_has_its_own_stream(port: Port, ns: str) -> None:
    start = _version(port, ns)
    watches = [port.watch(r.CONFIG_MAP, ns, resource_version=start) for _ in range(3)]
    port.create(r.CONFIG_MAP, config(ns, "a"))
    assert [seen(read(w, 1)) for w in watches] == [[("ADDED", "a")]] * 3
    for watch in watches:
        watch.close()


def test_next_without_time_does_not_wait(port: Port, ns: str) -> None:
    watch = port.watch(r.CONFIG_MAP, ns, resource_version=_version(port, ns))
    assert watch.next(0.0) is None
    port.create(r.CONFIG_MAP, config(ns, "a"))
    assert eventually(lambda: watch.next(0.0) is not None)
    watch.close()

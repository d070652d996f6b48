"""The API server falls silent, dies, forgets and comes back: our process stays and goes on."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable

import pytest

from kai_ray.cluster import kube
from kai_ray.cluster import resources as r
from kai_ray.cluster.defaults import install_queues
from kai_ray.cluster.informer import INITIAL_END
from kai_ray.cluster.kube import KubePort
from kai_ray.cluster.port import Invalid
from kai_ray.manager import Manager, ManagerConfig
from kai_ray.manager.install import install_definitions
from tests.control import objects
from tests.real.api.work import bare_pod, until
from tests.real.control_plane import ControlPlane


def lean_port(plane: ControlPlane, silence_s: float) -> KubePort:
    connection = kube.connect(str(plane.kubeconfig)).connection
    return KubePort(connection, silence_s=silence_s, timeout_s=10.0, lean=True)


@pytest.mark.slow
def test_a_kind_that_never_changes_is_heard_of_all_the_same(
    plane: ControlPlane, real_namespace: str
) -> None:
    port = lean_port(plane, 6.0)
    watch = port.watch(r.POD, real_namespace, resource_version=port.list(r.POD).resource_version)
    try:
        end = time.monotonic() + 8.0
        while time.monotonic() < end:
            assert watch.silent_s() < 6.0
            time.sleep(0.1)
            watch.next(0.0)
    finally:
        watch.close()
        port.close()


def test_a_watch_begins_with_all_that_is_there(plane: ControlPlane, real_namespace: str) -> None:
    plane.port.create(r.CONFIG_MAP, {"metadata": {"name": "mine", "namespace": real_namespace}})
    port = lean_port(plane, 30.0)
    watch = port.watch_list(r.CONFIG_MAP)
    try:
        names: list[str] = []
        while (event := watch.next(10.0)) is not None:
            if event.type == "BOOKMARK":
                break
            names.append(event.object["metadata"]["name"])
        assert event is not None
        assert event.object["metadata"]["annotations"][INITIAL_END] == "true"
        assert "mine" in names
    finally:
        watch.close()
        port.close()


def compact(plane: ControlPlane) -> None:
    """Makes etcd forget all that has changed up to now."""

    def ask(path: str, body: dict[str, str]) -> dict[str, dict[str, str]]:
        data = json.dumps(body).encode()
        with urllib.request.urlopen(f"{plane.etcd_url}/v3/kv/{path}", data, timeout=10) as answer:
            return json.load(answer)

    revision = ask("range", {"key": "AA=="})["header"]["revision"]
    ask("compaction", {"revision": revision})


def test_a_server_that_was_away_and_forgot_is_caught_up_with(
    new_plane: Callable[..., ControlPlane],
) -> None:
    """An older server, too: it cannot begin a watch with what is there."""
    off = "--feature-gates=WatchList=false"
    plane = new_plane(controllers=False, nodes=False, api_args=[off])
    install_definitions(plane.port)
    install_queues(plane.port)
    plane.port.create(r.NODE, objects.node("node-0"))
    _ready(plane, "node-0")
    space = plane.namespace()

    def pod(name: str) -> None:
        group = objects.podgroup(name, "default-queue", 1, namespace=space)
        plane.port.create(r.POD_GROUP, group)
        made = bare_pod(name, space)
        made["metadata"]["annotations"] = {"pod-group-name": name}
        plane.port.create(r.POD, made)

    def node_of(name: str) -> str:
        return plane.port.get(r.POD, name, space)["spec"].get("nodeName") or ""

    port = lean_port(plane, 8.0)
    with pytest.raises(Invalid):
        port.watch_list(r.POD)
    with Manager(port, config=ManagerConfig(max_age_s=8.0)) as manager:
        until(lambda: not manager.unready())
        pod("before")
        until(lambda: node_of("before"))
        plane.program("kube-apiserver").kill()
        until(lambda: manager.runtime.old_news(), what="it waits")
        plane.start_api_server()
        pod("after")
        plane.port.delete(r.NODE, "node-0")
        plane.port.create(r.NODE, objects.node("node-1"))
        _ready(plane, "node-1")
        compact(plane)
        took = until(lambda: node_of("after") == "node-1", 20)
        assert took < 15
        assert manager.problem() == ""
    port.close()


def _ready(plane: ControlPlane, name: str) -> None:
    """What a kubelet would report."""
    plane.port.patch(r.NODE, name, {"status": objects.node(name)["status"]}, subresource="status")

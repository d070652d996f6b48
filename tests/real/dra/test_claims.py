"""Claims on a real API server: made by its own controller, allocated by us, freed by it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import SystemClock
from kai_ray.cluster.defaults import install_queues
from kai_ray.cluster.port import NotFound
from kai_ray.cluster.runtime import Runtime
from kai_ray.manager.composition import Composition
from kai_ray.manager.config import ManagerConfig
from kai_ray.manager.install import install_definitions
from tests.dra import objects as o
from tests.real.control_plane import ControlPlane

DRIVER = "gpu.dra-test.example"


@pytest.fixture
def loop(plane: ControlPlane, tmp_path: Path) -> Iterator[Runtime]:
    """Our controllers, in this process, beside the server's own."""
    install_definitions(plane.port)
    install_queues(plane.port)
    runtime = Runtime(plane.port, SystemClock())
    composition = Composition(ManagerConfig(state=tmp_path))
    for controller in composition.controllers():
        runtime.add(controller)
    yield runtime
    runtime.close()
    composition.close()


@pytest.fixture
def offered(plane: ControlPlane, gpu_nodes: Callable[..., list[str]]) -> Iterator[list[str]]:
    """Two nodes with two devices each, and their class."""
    nodes = gpu_nodes(2, gpus=0, prefix="dra")
    made = [(r.DEVICE_CLASS, o.device_class(DRIVER))]
    made += [(r.RESOURCE_SLICE, o.slice_of(node, o.gpus(2), DRIVER)) for node in nodes]
    for resource, obj in made:
        plane.port.create(resource, obj)
    yield nodes
    for resource, obj in made:
        plane.port.delete(resource, obj["metadata"]["name"])


def test_pods_of_a_template_get_devices_and_leave_them(
    plane: ControlPlane, real_namespace: str, offered: list[str], loop: Runtime
) -> None:
    port, space = plane.port, real_namespace

    def make(resource: Any, obj: Any) -> None:
        port.create(resource, {**obj, "metadata": {**obj["metadata"], "namespace": space}})

    body = o.spec(o.exactly(cls=DRIVER, count=2, where=["device.driver.startsWith('gpu.')"]))
    make(r.RESOURCE_CLAIM_TEMPLATE, o.template("pair", body))
    for i in range(3):
        make(r.POD, o.pod(f"p{i}", template="pair"))

    def placed() -> dict[str, str]:
        pods = port.list(r.POD, space).items
        return {p["metadata"]["name"]: n for p in pods if (n := p["spec"].get("nodeName"))}

    def claims() -> dict[str, Any]:
        found = port.list(r.RESOURCE_CLAIM, space).items
        return {c["metadata"]["ownerReferences"][0]["name"]: c.get("status") or {} for c in found}

    assert loop.run_until(lambda: len(placed()) == 2, 30), "two nodes have room for a pair each"
    first = placed()
    assert sorted(first.values()) == sorted(offered)
    for pod, node in first.items():
        status = claims()[pod]
        results = status["allocation"]["devices"]["results"]
        assert [(d["pool"], d["device"]) for d in results] == [(node, "gpu-0"), (node, "gpu-1")]
        assert [u["name"] for u in status["reservedFor"]] == [pod]
    (waiting,) = {"p0", "p1", "p2"} - set(first)
    assert not claims()[waiting].get("allocation")
    gone = sorted(first)[0]
    port.delete(r.POD, gone, space, grace_s=0)
    assert loop.run_until(lambda: waiting in placed(), 30), "its devices are free again"
    assert placed()[waiting] == first[gone]
    assert gone not in claims()
    with pytest.raises(NotFound):
        port.get(r.POD, gone, space)


def test_pods_share_a_card_that_a_claim_keeps(
    plane: ControlPlane, real_namespace: str, gpu_nodes: Callable[..., list[str]], loop: Runtime
) -> None:
    """The server takes what we make for it, and lets all of it go with the reservation pod."""
    port, space, kept_in = plane.port, real_namespace, "kai-resource-reservation"
    (node,) = gpu_nodes(1, gpus=0, prefix="cards")
    made = [(r.DEVICE_CLASS, o.device_class()), (r.RESOURCE_SLICE, o.slice_of(node, o.gpus(1)))]
    for resource, obj in made:
        port.create(resource, obj)
    for name in ("a", "b"):
        pod = o.pod(name, meta={"namespace": space, "annotations": {"gpu-fraction": "0.5"}})
        del pod["spec"]["resourceClaims"], pod["spec"]["containers"][0]["resources"]
        port.create(r.POD, pod)

    def told() -> list[str]:
        pods = [p for p in port.list(r.POD, space).items if p["spec"].get("nodeName")]
        return [p["metadata"]["annotations"]["kai.scheduler/gpu-devices"] for p in pods]

    assert loop.run_until(lambda: len(told()) == 2, 30)
    assert set(told()) == {"GPU-0"}
    (claim,) = port.list(r.RESOURCE_CLAIM, kept_in).items
    (keeper,) = port.list(r.POD, kept_in).items
    assert [u["uid"] for u in claim["status"]["reservedFor"]] == [keeper["metadata"]["uid"]]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["pool"], result["device"]) == (node, "gpu-0")
    for name in ("a", "b"):
        port.delete(r.POD, name, space, grace_s=0)
    assert loop.run_until(lambda: not port.list(r.RESOURCE_CLAIM, kept_in).items, 60)
    assert not port.list(r.POD, kept_in).items
    for resource, obj in made:
        port.delete(resource, obj["metadata"]["name"])

"""Nodes and devices that fail again and again are set aside, with a reason, and come back."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Forbidden, Port, Unavailable
from kai_ray.controllers.explain import explain_workload
from kai_ray.encode import RESOURCES, Encoded, Encoder
from kai_ray.scheduler import Plan, decide
from kai_ray.sight import node_list as view
from tests.control import objects
from tests.control.faults import FaultyPort
from tests.control.world import World


class BrokenNodes(FaultyPort):
    """Nothing can be bound to some nodes."""

    nodes: frozenset[str] = frozenset()
    error: type[Exception] = Forbidden

    def bind(self, namespace: str, pod: str, node: str, **kwargs: Any) -> Any:
        if node in self.nodes:
            raise self.error(f"no volume can be attached to {node}")
        return super().bind(namespace, pod, node, **kwargs)


def world_with(broken: str, nodes: int = 2, **more: Any) -> tuple[World, list[BrokenNodes]]:
    ports: list[BrokenNodes] = []

    def wrap(port: Port) -> Any:
        ports.append(BrokenNodes(port, **more))
        ports[0].nodes = frozenset(broken.split())
        return ports[0]

    return World(nodes=nodes, wrap=wrap), ports


def notes(world: World, node: str = "node-0") -> dict[str, str]:
    return world.store.get(R.NODE, node)["metadata"].get("annotations") or {}


# ---------------------------------------------------------------------- nodes, by binds


def test_a_node_to_which_nothing_can_be_bound_is_left_alone() -> None:
    world, ports = world_with("node-0")
    world.gang("elsewhere", 2, gpus=5)  # one pod a node: that of node-1 is bound
    for i in range(4):
        world.gang(f"job-{i}", 1)
    assert world.until(lambda: L.QUARANTINED_UNTIL in notes(world), 60)
    assert "could not be bound to it" in notes(world)[L.QUARANTINE_REASON]
    assert "no volume" in notes(world)[L.QUARANTINE_REASON]
    assert any(reason == "Quarantined" for reason, _ in world.events("node-0"))
    assert world.until(lambda: len(world.placed("job")) == 3, 120)
    ports[0].nodes = frozenset()
    assert world.until(lambda: L.QUARANTINED_UNTIL not in notes(world), 700)
    assert world.until(lambda: len(world.placed()) == 6, 120)


def test_a_pod_that_fails_everywhere_is_no_fault_of_the_nodes() -> None:
    def reject(pod: str) -> Any:
        return Forbidden("a policy does not allow it") if pod.startswith("poison") else None

    world, _ = world_with("", reject=reject)
    for i in range(5):
        world.gang(f"poison-{i}", 1)
    for i in range(3):
        world.gang(f"job-{i}", 1)
    world.run(200)
    assert len(world.placed("job")) == 3
    assert not any(L.QUARANTINED_UNTIL in notes(world, f"node-{i}") for i in range(2))


@pytest.mark.parametrize("error", [Forbidden, Unavailable])
def test_an_api_server_that_binds_nothing_puts_no_node_aside(error: type[Exception]) -> None:
    world, ports = world_with("node-0 node-1")
    ports[0].error = error
    for i in range(12):
        world.gang(f"job-{i:02}", 1)
    world.run(120)
    assert not any(L.QUARANTINED_UNTIL in notes(world, f"node-{i}") for i in range(2))


# ---------------------------------------------------------------------- devices


def sharing(name: str, group: str, node: str = "node-0", **status: Any) -> dict[str, Any]:
    pod = objects.pod(name, gpus=0, node=node, phase="Running", labels={L.GPU_GROUP: group})
    pod["metadata"]["annotations"] = {L.GPU_FRACTION: "0.25", L.POD_GROUP: "old"}
    pod["status"] |= status
    return pod


def reject(world: World, pod: str) -> None:
    said = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "device is gone"}
    world.store.patch(R.POD, pod, {"status": said}, "default", subresource="status")


def decided_now(world: World) -> tuple[Encoded, Plan]:
    """What would be decided on what the store holds."""
    encoder = Encoder()
    for resource in RESOURCES:
        encoder.apply_all(resource, world.store.list(resource).items)
    encoded = encoder.snapshot(world.clock.now())
    return encoded, decide(encoded.snapshot)


def test_a_card_whose_pods_are_rejected_again_and_again_takes_no_more() -> None:
    world = World(nodes=1, gpus=2)
    world.store.create(R.POD_GROUP, objects.podgroup("old", "default-queue"))
    for i in range(4):
        world.store.create(R.POD, sharing(f"old-{i}", "card-a"))
    world.run(2)
    for i in range(3):
        reject(world, f"old-{i}")
        world.run(1)
    said = notes(world)[L.BAD_DEVICES]
    assert "card-a" in said and "device is gone" in said
    assert L.QUARANTINED_UNTIL not in notes(world)  # the node itself goes on
    assert any("card-a" in text for reason, text in world.events("node-0"))
    world.store.create(R.POD_GROUP, objects.podgroup("new", "default-queue"))
    pod = objects.pod("new", "new", gpus=0)
    pod["metadata"]["annotations"][L.GPU_FRACTION] = "0.25"
    world.store.create(R.POD, pod)
    encoded, plan = decided_now(world)
    assert plan.bind_node.tolist() == [0]
    assert encoded.names.groups[0] == ["card-a"]
    assert plan.grant_slot.tolist() == [1]  # the other card
    assert world.until(lambda: L.BAD_DEVICES not in notes(world), 700)


def test_one_pod_that_fails_by_itself_condemns_no_card() -> None:
    world = World(nodes=1, gpus=2)
    world.store.create(R.POD_GROUP, objects.podgroup("old", "default-queue"))
    world.store.create(R.POD, sharing("old-0", "card-a"))
    world.run(2)
    for i in range(6):
        reason = "StartError" if i % 2 else "Completed"
        state = {"waiting": {"reason": reason, "message": "nvml: GPU is lost"}}
        status = {"containerStatuses": [{"name": "main", "state": state}]}
        world.store.patch(R.POD, "old-0", {"status": status}, "default", subresource="status")
        world.run(1)
    assert L.BAD_DEVICES not in notes(world)


@pytest.mark.parametrize(
    ("message", "marked"),
    [("nvidia-container-cli: device error: unknown", True), ("exec: no such file", False)],
)
def test_containers_that_cannot_start_count_where_they_speak_of_a_device(
    message: str, marked: bool
) -> None:
    world = World(nodes=1, gpus=2)
    world.store.create(R.POD_GROUP, objects.podgroup("old", "default-queue"))
    for i in range(3):
        world.store.create(R.POD, sharing(f"old-{i}", "card-a"))
    world.run(2)
    state = {"waiting": {"reason": "RunContainerError", "message": message}}
    status = {"containerStatuses": [{"name": "main", "state": state}]}
    for i in range(3):
        world.store.patch(R.POD, f"old-{i}", {"status": status}, "default", subresource="status")
        world.run(1)
    assert (L.BAD_DEVICES in notes(world)) is marked


def unhealthy(health: str) -> dict[str, Any]:
    held = [{"name": L.NVIDIA_GPU, "resources": [{"resourceID": "GPU-7", "health": health}]}]
    return {"containerStatuses": [{"name": "main", "allocatedResourcesStatus": held}]}


def test_a_device_whose_kubelet_calls_it_unhealthy_is_set_aside_until_it_is_healthy() -> None:
    world = World(nodes=1, gpus=2)
    world.store.create(R.POD_GROUP, objects.podgroup("old", "default-queue"))
    world.store.create(R.POD, objects.pod("old", "old", node="node-0", phase="Running"))
    world.store.patch(
        R.POD, "old", {"status": unhealthy("Unhealthy")}, "default", subresource="status"
    )
    world.run(2)
    assert "GPU-7" in notes(world)[L.BAD_DEVICES]
    world.gang("new", 1)
    world.run(5)
    assert not world.placed("new")  # one of two is in use, the other one is set aside
    world.store.patch(
        R.POD, "old", {"status": unhealthy("Healthy")}, "default", subresource="status"
    )
    assert world.until(lambda: bool(world.placed("new")), 30)
    assert L.BAD_DEVICES not in notes(world)


def test_a_device_that_others_call_unhealthy_is_one_gpu_fewer() -> None:
    world = World(nodes=1, gpus=2)
    mark = {"metadata": {"annotations": {L.UNHEALTHY_DEVICES: "GPU-1"}}}
    world.store.patch(R.NODE, "node-0", mark)
    for i in range(2):
        world.gang(f"job-{i}", 1)
    world.run(5)
    assert len(world.placed("job")) == 1
    told = explain_workload(world.store, "PodGroup", "job-1", clock=world.clock).gangs[0]
    assert told.set_aside == (f"device GPU-1 of node-0: annotation {L.UNHEALTHY_DEVICES} names it",)
    row = view.build([world.store.get(R.NODE, "node-0")], [])[0]
    assert row.state == "Ready,BadDevice"
    assert row.bad_devices[0].startswith("GPU-1: ")


def test_what_the_kubelet_hides_already_is_not_counted_twice() -> None:
    world = World(nodes=1, gpus=2)
    status = {"capacity": {L.NVIDIA_GPU: "3", "cpu": "64", "memory": "256Gi", "pods": "110"}}
    world.store.patch(R.NODE, "node-0", {"status": status}, subresource="status")
    mark = {"metadata": {"annotations": {L.UNHEALTHY_DEVICES: "GPU-1"}}}
    world.store.patch(R.NODE, "node-0", mark)
    for i in range(2):
        world.gang(f"job-{i}", 1)
    world.run(5)
    assert len(world.placed("job")) == 2

"""Whatever happens to a write: no device twice, claims and pods agree, nothing is kept in vain."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Forbidden, NotFound, Port
from tests.control import objects
from tests.control.faults import Crash, FaultyPort, Mode
from tests.control.world import World
from tests.dra import objects as o

NODES, PODS = 2, 3


class Faults:
    """Makes the port of each life of the controllers; only the first life has a fault."""

    def __init__(self, at: int = -1, mode: Mode = "before") -> None:
        self.at = at
        self.mode: Mode = mode
        self.ports: list[FaultyPort] = []

    def __call__(self, port: Port) -> Any:
        at = self.at if not self.ports else -1
        self.ports.append(FaultyPort(port, at, self.mode))
        return self.ports[-1]


def _offer(world: World) -> None:
    world.store.create(kinds.DEVICE_CLASS, o.device_class())
    for i in range(NODES):
        world.store.create(kinds.RESOURCE_SLICE, o.slice_of(f"node-{i}", o.gpus(4)))


def _gang(world: World, name: str, pods: int, **more: Any) -> None:
    """Pods with a claim of two GPUs each, as kube-controller-manager leaves them."""
    world.store.create(
        kinds.POD_GROUP, objects.podgroup(name, "default-queue", more.pop("minimum", pods))
    )
    for i in range(pods):
        title = f"{name}-{i}"
        entry = {"name": "gpus", "resourceClaimTemplateName": "two"}
        pod = world.store.create(
            kinds.POD, objects.pod(title, name, gpus=0, resourceClaims=[entry], **more)
        )
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": title,
            "uid": pod["metadata"]["uid"],
            "controller": True,
        }
        made = o.claim(f"{title}-gpus", o.spec(o.exactly(count=2)))
        made["metadata"]["ownerReferences"] = [owner]
        world.store.create(kinds.RESOURCE_CLAIM, made)
        status = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": f"{title}-gpus"}]}
        world.store.patch(kinds.POD, title, {"status": status}, "default", subresource="status")


def _life(faults: Faults) -> World:
    world = World(nodes=NODES, gpus=0, wrap=faults)
    _offer(world)
    world.store.create(kinds.RESOURCE_CLAIM_TEMPLATE, o.template("two"))
    _gang(world, "first", PODS)
    _gang(world, "second", 2)
    return world


def _settle(world: World) -> None:
    while True:
        try:
            world.run(30)
        except Crash:
            world.boot()
        else:
            return


def _books(world: World) -> dict[str, tuple[list[str], list[str], str]]:
    """Per claim: its devices, the pods that it is reserved for, and the node of that pod."""
    found = {}
    placed = world.placed()
    for claim in world.store.list(kinds.RESOURCE_CLAIM).items:
        status = claim.get("status") or {}
        devices = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
        users = [u["name"] for u in status.get("reservedFor") or ()]
        pod = claim["metadata"]["name"].removesuffix("-gpus")
        found[pod] = [f"{d['pool']}/{d['device']}" for d in devices], users, placed.get(pod, "")
    return found


def _check(world: World) -> None:
    books = _books(world)
    every = [d for devices, _, _ in books.values() for d in devices]
    assert len(every) == len(set(every)), books
    for pod, (devices, users, node) in books.items():
        if node:
            assert len(devices) == 2 and users == [pod], books
            assert all(d.startswith(f"{node}/") for d in devices), books
        else:
            assert not devices and not users, books


def _writes_without_fault() -> int:
    faults = Faults()
    world = _life(faults)
    _settle(world)
    _check(world)
    assert sorted(world.placed()) == [f"first-{i}" for i in range(PODS)]
    return faults.ports[0].writes


_COUNT = _writes_without_fault()


@pytest.mark.parametrize("mode", ["crash before", "crash after", "before", "after", "conflict"])
def test_a_fault_at_any_write_changes_nothing_in_the_end(mode: Mode) -> None:
    assert _COUNT >= 3 * PODS, "a finalizer, a status and a bind for each pod"
    for at in range(_COUNT):
        world = _life(Faults(at, mode))
        _settle(world)
        _check(world)
        assert sorted(world.placed()) == [f"first-{i}" for i in range(PODS)], (mode, at)


def test_devices_of_a_pod_that_cannot_be_bound_go_to_others() -> None:
    refused = Forbidden("no")
    world = World(
        nodes=1,
        gpus=0,
        wrap=lambda port: FaultyPort(port, reject=lambda p: refused if p == "first-0" else None),
    )
    world.store.create(kinds.DEVICE_CLASS, o.device_class())
    world.store.create(kinds.RESOURCE_SLICE, o.slice_of("node-0", o.gpus(2)))
    world.store.create(kinds.RESOURCE_CLAIM_TEMPLATE, o.template("two"))
    _gang(world, "first", 1)
    world.run(300)
    assert _books(world)["first-0"] == ([], [], "")
    _gang(world, "second", 1)
    assert world.until(lambda: "second-0" in world.placed(), 120)
    _check(world)


def _promised(world: World, pod: str, node: str, *devices: str) -> None:
    """What a scheduler leaves that dies between its last write on the claim and the bind."""
    claim = world.store.get(kinds.RESOURCE_CLAIM, f"{pod}-gpus", "default")
    uid = world.store.get(kinds.POD, pod, "default")["metadata"]["uid"]
    status = {
        "allocation": o.allocation(node, *devices),
        "reservedFor": [{"resource": "pods", "name": pod, "uid": uid}],
    }
    world.store.update(kinds.RESOURCE_CLAIM, {**claim, "status": status}, subresource="status")


def test_a_scheduler_that_starts_anew_takes_up_what_a_claim_says() -> None:
    world = World(nodes=NODES, gpus=0)
    _offer(world)
    _gang(world, "first", 1)
    _promised(world, "first-0", "node-1", "gpu-2", "gpu-3")
    world.run(2)
    assert world.placed() == {"first-0": "node-1"}
    assert _books(world)["first-0"][0] == ["node-1/gpu-2", "node-1/gpu-3"]


def test_devices_that_a_pod_was_promised_and_cannot_reach_are_given_back() -> None:
    world = _life(Faults())
    _promised(world, "second-0", "node-1", "gpu-2", "gpu-3")
    world.store.patch(kinds.NODE, "node-1", {"spec": {"unschedulable": True}})
    world.run(2)
    assert world.placed() == {}, "tied to a node that takes nothing"
    world.run(30)
    assert world.placed() == {"second-0": "node-0", "second-1": "node-0"}
    _check(world)


def test_a_claim_that_others_allocated_meanwhile_is_not_written_over() -> None:
    world = _life(Faults())
    port: Any = world.runtime.port
    inner = world.store.update

    def first_somebody_else(resource: Any, obj: Any, **more: Any) -> Any:
        if resource == kinds.RESOURCE_CLAIM and obj["metadata"]["name"] == "first-0-gpus":
            now = world.store.get(resource, "first-0-gpus", "default")
            if not (now.get("status") or {}).get("allocation"):
                theirs = {**now, "status": {"allocation": o.allocation("node-1", "gpu-0")}}
                inner(resource, theirs, subresource="status")
        return inner(resource, obj, **more)

    port.update = first_somebody_else
    world.run(1)
    status = world.store.get(kinds.RESOURCE_CLAIM, "first-0-gpus", "default")["status"]
    assert status["allocation"] == o.allocation("node-1", "gpu-0")


class Hidden:
    """A server that does not know the kinds of devices, or does not let us see them."""

    def __init__(self, inner: Port, error: Exception) -> None:
        self._inner, self._error = inner, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def list(self, resource: Any, *args: Any, **more: Any) -> Any:
        if resource.group == "resource.k8s.io":
            raise self._error
        return self._inner.list(resource, *args, **more)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NotFound("the server could not find the requested resource"), "does not serve"),
        (Forbidden("no"), "cannot be read now: let the scheduler list and watch"),
    ],
)
def test_where_claims_cannot_be_seen_their_pods_say_so_and_others_run(
    error: Exception, words: str
) -> None:
    world = World(nodes=1, gpus=2, wrap=lambda port: Hidden(port, error))  # type: ignore[arg-type,return-value]
    _gang(world, "claims", 1)
    world.gang("plain", 2)
    assert world.until(lambda: len(world.placed("plain")) == 2, 30)
    assert world.placed("claims") == {}
    assert words in world.condition("claims")["message"]

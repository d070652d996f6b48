"""With `bindRequests: always` every decision is an object that KAI's tools can see."""

from __future__ import annotations

from typing import Any

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Forbidden, Port
from kai_ray.controllers.config import ControlConfig

from .faults import Crash, FaultyPort
from .world import World

_ALWAYS = ControlConfig(period_s=0.05, bind_requests="always")


def _requests(world: World) -> list[dict[str, Any]]:
    return world.store.list(kinds.BIND_REQUEST).items


def test_a_gang_is_bound_through_requests() -> None:
    world = World(config=_ALWAYS)
    world.gang("train", 3, gpus=2)
    world.run(5)
    assert len(world.placed()) == 3
    for request in _requests(world):
        pod = world.store.get(kinds.POD, request["metadata"]["name"], "default")
        assert request["spec"]["selectedNode"] == pod["spec"]["nodeName"]
        assert request["spec"]["receivedResourceType"] == "Regular"
        assert request["spec"]["receivedGPU"] == {"count": 2, "portion": "1.00"}
        assert request["status"]["phase"] == "Succeeded"
        assert request["metadata"]["labels"] == {"selected-node": pod["spec"]["nodeName"]}
        (owner,) = request["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Pod", pod["metadata"]["uid"])


def test_without_the_mode_there_is_none() -> None:
    world = World()
    world.gang("train", 3)
    world.run(5)
    assert len(world.placed()) == 3
    assert not _requests(world)


def test_a_request_that_fails_is_tried_again_then_removed_and_holds_nobody_up() -> None:
    def wrap(port: Port) -> Any:
        refuse = lambda pod: Forbidden("not allowed") if pod == "poison-00" else None  # noqa: E731
        return FaultyPort(port, reject=refuse)

    world = World(nodes=1, gpus=4, config=_ALWAYS, wrap=wrap)
    world.gang("poison", 1, gpus=4)
    world.run(5)
    world.gang("next", 1, gpus=4)
    world.run(5)
    assert world.placed("next")
    assert world.condition("poison")["reason"] in ("BackingOff", "InsufficientGpu")
    world.run(300)
    port = world.runtime.port
    assert isinstance(port, FaultyPort)
    assert not [r for r in _requests(world) if r["metadata"]["name"] == "poison-00"]


def test_a_restart_takes_up_requests_where_they_were() -> None:
    for at in range(12):
        lives: list[FaultyPort] = []

        def wrap(port: Port, at: int = at, lives: list[FaultyPort] = lives) -> Any:
            lives.append(FaultyPort(port, at if not lives else -1, "crash after"))
            return lives[-1]

        world = World(nodes=1, config=_ALWAYS, wrap=wrap)
        world.gang("train", 4)
        try:
            world.run(30)
        except Crash:
            world.boot()
            world.run(30)
        assert len(world.placed()) == 4
        assert {r["status"]["phase"] for r in _requests(world)} == {"Succeeded"}

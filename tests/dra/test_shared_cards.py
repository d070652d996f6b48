"""Pods share GPUs that resource slices offer: each card is kept by a claim of its own."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Port
from tests.control.faults import FaultyPort, Mode
from tests.dra import objects as o
from tests.dra.shared_cards import KEPT_IN, CardWorld, gpus
from tests.dra.world import cluster, create, held, placed, running, why


def test_two_halves_share_a_card_and_a_whole_one_goes_beside_them() -> None:
    world = CardWorld(cards=2)
    world.share("a")
    world.share("b")
    world.whole("c")
    world.whole("d")
    world.run(5)
    told = world.told()
    assert told["a"] == told["b"]
    (kept,) = world.claimed(KEPT_IN).values()
    assert kept == [told["a"]]
    (one,) = world.claimed().values()
    assert one != kept and len(world.placed()) == 3
    (keeper,) = world.keepers()
    claim = world.store.get(kinds.RESOURCE_CLAIM, keeper["metadata"]["name"], KEPT_IN)
    assert claim["metadata"]["ownerReferences"][0]["uid"] == keeper["metadata"]["uid"]
    assert [u["uid"] for u in claim["status"]["reservedFor"]] == [keeper["metadata"]["uid"]]
    assert "nvidia.com/gpu" not in keeper["spec"]["containers"][0]["resources"]["limits"]


def test_the_last_one_to_end_frees_the_card_for_a_claim() -> None:
    world = CardWorld(cards=1)
    world.share("a")
    world.share("b")
    world.run(5)
    world.whole("c")
    world.end("a")
    world.run(20)
    assert sorted(world.placed()) == ["b"]
    world.end("b")
    world.run(20)
    assert sorted(world.placed()) == ["c"] and not world.keepers()
    assert not world.claimed(KEPT_IN) and not world.wrong()


def test_a_claimed_card_is_not_shared_until_it_is_free() -> None:
    world = CardWorld(cards=1)
    world.whole("c")
    world.run(5)
    world.share("a")
    world.run(20)
    assert sorted(world.placed()) == ["c"] and not world.keepers()
    world.end("c")
    world.run(20)
    assert sorted(world.placed()) == ["a"] and not world.wrong()


@pytest.mark.parametrize("template", ["one", "every"])
def test_both_kinds_in_one_cycle_take_no_more_than_there_is(template: str) -> None:
    for order in range(6):
        world = CardWorld(cards=2)
        for i in random.Random(order).sample(range(4), 4):
            world.share(f"s{i}") if i < 2 else world.whole(f"w{i}", template)
        world.run(10)
        assert not world.wrong(), world.wrong()
        assert len(world.placed()) == (3 if template == "one" or len(world.told()) == 0 else 2)
        assert not [e for p in world.pods() for e in world.events(p["metadata"]["name"])
                    if e[0] == "BindFailed"]  # fmt: skip


def test_memory_is_counted_by_what_the_slice_says() -> None:
    world = CardWorld(cards=1)
    world.share("a", "", gpu_memory="41000")
    world.share("b", "", gpu_memory="40000")
    world.share("c", "", gpu_memory="2000")
    world.run(10)
    assert sorted(world.told()) == ["a", "b"] and not world.wrong()


def test_after_a_restart_the_card_is_known() -> None:
    world = CardWorld(cards=2)
    world.share("a")
    world.run(5)
    before = world.told()
    world.boot()
    world.share("b", "0.25")
    world.whole("c")
    world.whole("d")
    world.run(10)
    assert world.told() == {**before, "b": before["a"]}
    assert len(world.placed()) == 3 and not world.wrong()


def test_a_lost_reservation_pod_gets_the_same_card_again() -> None:
    world = CardWorld(cards=3)
    world.share("a")
    world.run(5)
    before = world.told()
    (keeper,) = world.keepers()
    world.end(keeper["metadata"]["name"], KEPT_IN)
    for i in range(3):
        world.whole(f"w{i}")
    world.run(20)
    assert world.told() == before and not world.wrong()
    assert list(world.claimed(KEPT_IN).values()) == [[before["a"]]]
    assert len(world.claimed()) == 2


def test_who_shares_a_card_that_was_given_away_is_ended_and_told() -> None:
    world = CardWorld(cards=1)
    world.share("a")
    world.run(5)
    (keeper,) = world.keepers()
    name = keeper["metadata"]["name"]
    taken = world.store.get(kinds.RESOURCE_CLAIM, name, KEPT_IN)["status"]["allocation"]
    other = world.store.create(kinds.RESOURCE_CLAIM, o.claim("other"))
    fresh = {**other, "status": {"allocation": taken, "reservedFor": [
        {"resource": "services", "apiGroup": "example.com", "name": "x", "uid": "x"}]}}  # fmt: skip
    world.store.update(kinds.RESOURCE_CLAIM, fresh, subresource="status")
    world.end(name, KEPT_IN)
    world.run(20)
    assert "a" not in world.placed()
    assert "GPULost" in [reason for reason, _ in world.events("a")]
    assert not world.keepers() and not world.wrong()


def _offer(world: CardWorld, devices: list[Any]) -> None:
    found = world.store.get(kinds.RESOURCE_SLICE, "node-0-gpu.nvidia.com")
    pool = {**found["spec"]["pool"], "generation": 2}
    spec = {**found["spec"], "devices": devices, "pool": pool}
    world.store.update(kinds.RESOURCE_SLICE, {**found, "spec": spec})


def test_nothing_is_shared_where_the_slices_do_not_tell_the_cards() -> None:
    world = CardWorld(cards=2)
    _offer(world, [*gpus(0, 1), o.device("gpu-1")])
    world.share("a")
    world.run(5)
    assert not world.placed()
    _offer(world, gpus(0, 2))
    world.run(5)
    assert world.told()


def test_nodes_with_a_device_plugin_too_keep_their_way() -> None:
    world = CardWorld(cards=2)
    more = {"nvidia.com/gpu": "2"}
    patch = {"status": {"allocatable": more, "capacity": more}}
    world.store.patch(kinds.NODE, "node-0", patch, subresource="status")
    world.share("a")
    world.run(5)
    assert not world.placed() and not world.keepers()


class _Faults:
    """Makes the port of each life of the controllers; only the first life has a fault."""

    def __init__(self, at: int = -1, mode: Mode = "before") -> None:
        self.at = at
        self.mode: Mode = mode
        self.ports: list[FaultyPort] = []

    def __call__(self, port: Port) -> Any:
        self.ports.append(FaultyPort(port, -1 if self.ports else self.at, self.mode))
        return self.ports[-1]


def _life(faults: _Faults) -> CardWorld:
    world = CardWorld(cards=2, wrap=faults)
    world.share("a")
    world.share("b")
    world.whole("c")
    world.settle()
    return world


@pytest.mark.parametrize("mode", ["crash before", "crash after", "before", "after", "conflict"])
def test_a_fault_at_any_write_changes_nothing_in_the_end(mode: Mode) -> None:
    faults = _Faults()
    _life(faults)
    count = faults.ports[0].writes
    assert count >= 10, "pod, claim, finalizer, allocation, device, and a bind for each"
    for at in range(count):
        world = _life(_Faults(at, mode))
        assert sorted(world.placed()) == ["a", "b", "c"], (mode, at)
        assert not world.wrong(), (mode, at, world.wrong())
        assert len(world.keepers()) == len(world.claimed(KEPT_IN)) == 1, (mode, at)


@pytest.mark.parametrize("seed", range(6))
def test_a_random_life_gives_no_card_twice(seed: int) -> None:
    pick = random.Random(seed)
    world = CardWorld(nodes=2, cards=pick.randint(1, 3))
    for step in range(40):
        names = [p["metadata"]["name"] for p in world.pods()]
        act = pick.random()
        if act < 0.35:
            world.share(f"s{step}", pick.choice(["0.5", "0.3", "0.7"]))
        elif act < 0.6:
            world.whole(f"w{step}", pick.choice(["one", "one", "every"]))
        elif act < 0.85 and names:
            world.end(pick.choice(names))
        elif act < 0.92 and world.keepers():
            world.end(pick.choice(world.keepers())["metadata"]["name"], KEPT_IN)
        else:
            world.boot()
        world.run(pick.choice([0.05, 0.3, 2, 15]))
        assert not world.wrong(), (step, world.wrong())
    for pod in world.pods():
        world.end(pod["metadata"]["name"])
    world.run(60)
    assert not world.keepers() and not world.store.list(kinds.RESOURCE_CLAIM).items


def test_a_cluster_whose_kubelets_check_runs_them_side_by_side() -> None:
    def half(name: str) -> Any:
        pod = o.pod(name)
        del pod["spec"]["resourceClaims"], pod["spec"]["containers"][0]["resources"]
        pod["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
        return pod

    with cluster(1, 2) as world:
        create(world, o.template("one"), half("a"), half("b"))
        create(world, o.pod("c", template="one"), o.pod("d", template="one"))
        world.run_for(10)
        assert {"a", "b"} < running(world) and len(held(world)) == 2
        (waits,) = {"a", "b", "c", "d"} - placed(world).keys()
        assert "GPU" in why(world, waits)
        assert not world.kubelet.refused and world.runtime.errors == 0
        for name in ("a", "b"):
            world.client.delete(kinds.POD, name, "default")
        world.run_for(10)
        assert {"c", "d"} == running(world) and not world.kubelet.refused

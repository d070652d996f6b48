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
        with world.together():
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


@pytest.mark.parametrize("kind", ["share", "whole"])
def test_who_comes_while_cards_are_without_their_keepers_gets_another(kind: str) -> None:
    world = CardWorld(cards=3)
    world.share("a", "0.9")
    world.share("b", "0.9")
    world.run(5)
    before = world.told()
    for keeper in world.keepers():  # they are made again one after the other
        world.end(keeper["metadata"]["name"], KEPT_IN)
    world.share("c", "0.9") if kind == "share" else world.whole("c")
    world.run(20)
    assert before.items() <= world.told().items() and "c" in world.placed()
    assert not world.wrong() and len(world.keepers()) == len(world.told())


def _with_another_driver() -> CardWorld:
    """One card that may be shared and one of another driver, which is a GPU too."""
    world = CardWorld(cards=1)
    other = [o.device("gpu-0", attributes={"uuid": "GPU-node-0-x", "example.com/cell": 1})]
    made = o.slice_of("node-0", other, "gpu.other.com", pool={"name": "other"})
    world.store.create(kinds.RESOURCE_SLICE, made)
    both = "device.driver in ['gpu.nvidia.com', 'gpu.other.com']"
    world.store.create(kinds.DEVICE_CLASS, o.device_class("any-gpu", both))
    world.store.create(kinds.DEVICE_CLASS, o.device_class("nic.example.com"))
    world.store.create(
        kinds.RESOURCE_CLAIM_TEMPLATE, o.template("any", o.spec(o.exactly(cls="any-gpu")))
    )
    return world


def test_gpus_of_another_driver_are_no_cards_to_share() -> None:
    world = _with_another_driver()
    world.share("a", "0.9")
    world.share("b", "0.9")
    world.run(10)
    assert len(world.placed()) == len(world.keepers()) == 1
    world.whole("c")
    world.whole("d", "any")
    world.run(10)
    assert len(world.placed()) == 2 and "d" in world.placed() and not world.wrong()


def test_a_part_and_a_claim_of_the_same_driver_are_counted_in_one_cycle() -> None:
    for names in (("a", "c"), ("c", "a")):
        world = _with_another_driver()
        with world.together():
            for name in names:
                world.share(name, "0.9") if name == "a" else world.whole(name)
        world.run(10)
        (first,) = world.placed()
        (waits,) = {"a", "c"} - {first}
        assert "BindFailed" not in [reason for reason, _ in world.events(waits)]
        assert not world.wrong()


def test_a_card_that_is_opened_is_left_over_by_claims_that_would_like_it_more() -> None:
    world = _with_another_driver()
    _offer(world, gpus(0, 1, **{"example.com/cell": 0}))
    nic = [o.device("nic-0", attributes={"example.com/cell": 0})]
    made = o.slice_of("node-0", nic, "nic.example.com", pool={"name": "nics"})
    world.store.create(kinds.RESOURCE_SLICE, made)
    near = o.spec(
        o.exactly(cls="any-gpu"),
        o.exactly("nic", "nic.example.com"),
        constraints=[{"matchAttribute": "example.com/cell"}],
    )
    world.store.create(kinds.RESOURCE_CLAIM_TEMPLATE, o.template("near", near))
    with world.together():
        world.share("a", "0.9")
        world.whole("c", "near")
    world.run(10)
    assert sorted(world.placed()) == ["a"] and not world.wrong()
    world.end("a")
    world.run(60)
    assert sorted(world.placed()) == ["c"] and not world.wrong()


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


def test_a_preemptor_takes_one_card_and_no_more() -> None:
    world = CardWorld(cards=3)
    for i in range(3):
        world.share(f"s{i}", "0.9")
    world.run(5)
    assert len(set(world.told().values())) == 3
    urgent = {"metadata": {"name": "urgent"}, "value": 90}
    world.store.create(kinds.PRIORITY_CLASS, urgent)
    world.whole("w", priorityClassName="urgent")
    assert world.until(lambda: "w" in world.placed())
    world.run(20)
    assert len(world.told()) == 2 and not world.wrong()


def test_a_part_of_each_of_two_cards() -> None:
    world = CardWorld(cards=3)
    world.share("a", gpu_fraction_num_devices="2")
    world.share("b", gpu_fraction_num_devices="2")
    world.whole("c")
    world.whole("d")
    world.run(10)
    assert len(world.told()["a"].split(",")) == 2
    assert world.told()["a"] == world.told()["b"] and len(world.claimed()) == 1
    assert not world.wrong()


def _offer(world: CardWorld, devices: list[Any]) -> None:
    found = world.store.get(kinds.RESOURCE_SLICE, "node-0-gpu.nvidia.com")
    pool = {**found["spec"]["pool"], "generation": found["spec"]["pool"]["generation"] + 1}
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
            many = pick.choice(["1", "1", "2"])
            part = pick.choice(["0.5", "0.3", "0.7"])
            world.share(f"s{step}", part, gpu_fraction_num_devices=many)
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
        maps = [m["data"] for m in world.client.list(kinds.CONFIG_MAP, "default").items]
        seen = [m["NVIDIA_VISIBLE_DEVICES"] for m in maps if "NVIDIA_VISIBLE_DEVICES" in m]
        assert len(seen) == 2 and len(set(seen)) == 1 and seen[0].startswith("GPU-node-0-")
        (waits,) = {"a", "b", "c", "d"} - placed(world).keys()
        assert "GPU" in why(world, waits)
        assert not world.kubelet.refused and world.runtime.errors == 0
        for name in ("a", "b"):
            world.client.delete(kinds.POD, name, "default")
        world.run_for(10)
        assert {"c", "d"} == running(world) and not world.kubelet.refused

"""Whatever happens to a write, the end is the same: whole gangs, no GPU twice, nothing lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import ApiError, Forbidden, Port, Resource

from . import objects
from .faults import Crash, FaultyPort, Mode
from .world import World

GANG = 64


class _Faults:
    """Makes the port of each life of the controllers; only the first life has a fault."""

    def __init__(self, at: int, mode: Mode) -> None:
        self.at = at
        self.mode: Mode = mode
        self.ports: list[FaultyPort] = []

    def __call__(self, port: Port) -> Any:
        at = self.at if not self.ports else -1
        self.ports.append(FaultyPort(port, at, self.mode))
        return self.ports[-1]


def _life(faults: _Faults) -> World:
    """A gang of 64 on exactly as many GPUs, and another that has to wait for it."""
    world = World(nodes=8, wrap=faults)
    world.gang("first", GANG)
    world.gang("second", 8)
    return world


def _settle(world: World) -> None:
    while True:
        try:
            world.run(120)
        except Crash:
            world.boot()
        else:
            return


def _end(world: World) -> Any:
    """What must not depend on faults."""
    group = world.group("first")
    return (
        Counter(world.placed().values()),
        sorted(world.placed()),
        {c["type"]: (c["status"], c["reason"]) for c in group["status"]["conditions"]},
        group["status"]["resourcesStatus"],
        world.condition("second")["reason"],
    )


def _writes_without_fault() -> tuple[int, Any]:
    faults = _Faults(-1, "before")
    world = _life(faults)
    _settle(world)
    return faults.ports[0].writes, _end(world)


_COUNT, _EXPECTED = _writes_without_fault()


def test_the_undisturbed_run_binds_the_whole_gang() -> None:
    assert _EXPECTED[0] == Counter({f"node-{i}": 8 for i in range(8)})
    assert all(name.startswith("first") for name in _EXPECTED[1])


@pytest.mark.parametrize("mode", ["crash before", "crash after", "before", "after", "conflict"])
def test_a_fault_at_any_write_changes_nothing_in_the_end(mode: Mode) -> None:
    # A crash is tried at every write; the mild faults at every third, they have less to break.
    for at in range(0, _COUNT, 1 if mode.startswith("crash") else 3):
        world = _life(_Faults(at, mode))
        _settle(world)
        assert _end(world) == _EXPECTED, f"{mode} write {at}"


def test_a_slow_server_changes_nothing_in_the_end() -> None:
    faults = _Faults(-1, "before")
    world = _life(faults)
    faults.ports[0].clock, faults.ports[0].slow_s = world.clock, 2.0
    world.run(600)
    assert _end(world) == _EXPECTED


def test_a_gang_cut_short_by_a_crash_goes_on_before_others_start() -> None:
    faults = _Faults(10, "crash after")
    world = World(nodes=2, wrap=faults)
    world.gang("cut", 16)
    with pytest.raises(Crash):
        world.run(5)
    assert 0 < len(world.placed()) < 16
    # A gang that everybody would let go first comes in while the controllers are down.
    world.gang("urgent", 4, priorityClassName="build-preemptible", preemptionDelay="1h")
    world.boot()
    world.run(5)
    assert len(world.placed("cut")) == 16
    assert not world.placed("urgent")


def test_a_place_stays_taken_while_nobody_can_say_whether_the_bind_happened() -> None:
    ports: list[FaultyPort] = []

    def wrap(port: Port) -> Any:
        ports.append(FaultyPort(port))
        return ports[-1]

    world = World(nodes=1, wrap=wrap)
    world.run()
    world.gang("first", 8)
    ports[0].dark = True
    # The store tells of the new pods while replies and watches of the binds are lost.
    for resource in (kinds.POD_GROUP, kinds.POD):
        for obj in world.store.list(resource).items:
            world.runtime.informer(resource).remember(obj)
    world.run(30)
    assert len(world.placed("first")) == 8
    tasks = world.control.encoder.snapshot(world.clock.now()).snapshot.tasks
    assert (tasks.node >= 0).sum() == 8
    ports[0].dark = False
    world.gang("second", 1)
    world.run(120)
    assert not world.placed("second")
    assert world.condition("first")["status"] == "True"


def test_nothing_is_decided_on_news_that_has_gone_stale() -> None:
    ports: list[FaultyPort] = []

    def wrap(port: Port) -> Any:
        ports.append(FaultyPort(port))
        return ports[-1]

    world = World(nodes=1, wrap=wrap)
    world.run()
    ports[0].broken = True  # watches break and no list succeeds
    world.gang("first", 4)
    for resource in (kinds.POD_GROUP, kinds.POD):
        for obj in world.store.list(resource).items:
            world.runtime.informer(resource).remember(obj)
    world.run(60)
    assert not ports[0].binds
    ports[0].broken = False
    world.run(60)
    assert len(world.placed()) == 4


def _rejecting(name: str) -> Any:
    def wrap(port: Port) -> Any:
        def reject(pod: str) -> ApiError | None:
            return Forbidden("a policy does not allow this pod") if pod == name else None

        return FaultyPort(port, reject=reject)

    return wrap


def test_a_pod_that_is_always_rejected_holds_nobody_up() -> None:
    world = World(nodes=2, wrap=_rejecting("poison-00"))
    world.gang("poison", 1)
    world.run(5)
    for i in range(10):
        world.gang(f"job-{i}", 1)
    world.run(2)
    assert len(world.placed("job")) == 10
    assert world.condition("poison")["reason"] == "BackingOff"
    assert "policy" in world.condition("poison")["message"]


def test_after_six_failures_a_bind_is_tried_at_most_once_a_minute() -> None:
    world = World(nodes=1, wrap=_rejecting("poison-00"))
    world.gang("poison", 1)
    world.run(120)
    port = world.runtime.port
    assert isinstance(port, FaultyPort)
    before = len(port.binds)
    world.run(600)
    assert 8 <= len(port.binds) - before <= 10


def test_a_rejected_member_does_not_keep_its_place() -> None:
    world = World(nodes=1, gpus=4, wrap=_rejecting("poison-00"))
    world.gang("poison", 1, gpus=4)
    world.run(10)
    world.gang("next", 1, gpus=4)
    world.run(5)
    assert world.placed("next")


_TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "set"}},
    "spec": {"containers": [{"name": "main", "image": "app"}]},
}


def _owned(world: World, name: str, pods: int, owner: Resource, spec: dict[str, Any]) -> None:
    """A gang whose pods somebody would make again."""
    made = world.store.create(owner, {"metadata": {"name": name, "namespace": "default"}, **spec})
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": name,
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    group = objects.podgroup(name, "default-queue", pods)
    group["metadata"]["ownerReferences"] = [reference]
    world.store.create(kinds.POD_GROUP, group)
    for i in range(pods):
        pod = objects.pod(f"{name}-{i:02d}", name)
        pod["metadata"]["ownerReferences"] = [reference]
        world.store.create(kinds.POD, pod)


def _replica_set(world: World) -> None:
    selector = {"matchLabels": {"app": "set"}}
    _owned(
        world, "set", 4, kinds.REPLICA_SET, {"spec": {"selector": selector, "template": _TEMPLATE}}
    )


def _running_without_end(world: World, prefix: str) -> list[str]:
    return [
        p["metadata"]["name"]
        for p in world.pods(prefix)
        if p["spec"].get("nodeName") and not p["metadata"].get("deletionTimestamp")
    ]


def test_a_gang_with_a_rejected_member_goes_as_a_whole_after_its_grace() -> None:
    world = World(nodes=1, wrap=_rejecting("set-03"))
    _replica_set(world)
    world.run(50)
    assert len(_running_without_end(world, "set")) == 3
    assert "kai.scheduler/stale-podgroup-timestamp" in world.group("set")["metadata"]["annotations"]
    world.run(20)
    assert not _running_without_end(world, "set")
    assert any(reason == "StaleGang" for reason, _ in world.events("set"))


def test_a_gang_that_was_sent_away_says_until_when_it_waits() -> None:
    world = World(nodes=1, wrap=_rejecting("set-03"))
    _replica_set(world)
    world.run(61)
    for i in range(4):  # whoever owns the pods makes new ones
        pod = objects.pod(f"set-1{i}", "set")
        world.store.create(kinds.POD, pod)
    world.run(3)
    assert not world.placed("set-1")
    said = world.condition("set")
    assert said["reason"] == "BackingOff"
    assert "minimum" in said["message"]
    world.run(30)
    assert len(world.placed("set-1")) == 4


def test_the_grace_is_not_granted_anew_after_a_restart() -> None:
    world = World(nodes=1, wrap=_rejecting("set-03"))
    _replica_set(world)
    world.run(40)
    world.boot()
    world.run(30)
    assert not _running_without_end(world, "set")


def test_a_job_goes_by_its_own_switch_and_comes_back() -> None:
    world = World(nodes=1, wrap=_rejecting("work-03"))
    template = {"spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}
    _owned(world, "work", 4, kinds.JOB, {"spec": {"parallelism": 4, "template": template}})

    def suspended() -> bool:
        return bool(world.store.get(kinds.JOB, "work", "default")["spec"].get("suspend"))

    assert world.until(suspended, 90)
    assert len(_running_without_end(world, "work")) == 3  # its operator ends them, not we
    assert world.until(lambda: not suspended(), 30)


def test_bare_pods_are_not_deleted_because_a_bind_fails() -> None:
    world = World(nodes=1, wrap=_rejecting("bare-03"))
    world.gang("bare", 4)
    world.run(300)
    assert len(world.placed()) == 3
    assert len(world.pods()) == 4


def test_negative_grace_means_never() -> None:
    world = World(nodes=1, wrap=_rejecting("set-03"))
    _replica_set(world)
    patch = {"spec": {"stalenessGracePeriod": "-1s"}}
    world.store.patch(kinds.POD_GROUP, "set", patch, "default")
    world.run(300)
    assert len(world.placed()) == 3

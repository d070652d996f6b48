"""What breaks is set aside or mended first: gangs that stop the core, nodes that reject pods."""

from __future__ import annotations

from typing import Any

import pytest

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.controllers import isolation, scheduling
from kai_ray.controllers.explain import explain_workload
from kai_ray.scheduler import Plan, Snapshot, decide
from kai_ray.scheduler.snapshot import TaskState
from kai_ray.sight import node_list as view

from .world import EvictWorld


class _Stumbling:
    """The core, with a defect that shows on gangs of three pods."""

    def __init__(self) -> None:
        self.calls = 0
        self.mended = False

    def __call__(self, snapshot: Snapshot, *policy: Any) -> Plan:
        self.calls += 1
        tasks = snapshot.tasks
        waiting = tasks.gang[(tasks.state == TaskState.PENDING) & (tasks.gang >= 0)]
        for gang in set(waiting.tolist()):
            if not self.mended and (waiting == gang).sum() == 3:
                raise ZeroDivisionError("three pods")
        return decide(snapshot, *policy)


def test_a_gang_that_breaks_the_core_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = _Stumbling()
    monkeypatch.setattr(scheduling, "decide", core)
    with EvictWorld("2x8") as world:
        world.queues(a=16)
        for i in range(4):
            world.job(f"good-{i}", "a", 2)
        world.job("bad", "a", 3)
        for i in range(4, 6):
            world.job(f"good-{i}", "a", 2)
        world.run(10)
        assert len(world.running("good")) == 12
        assert not world.running("bad")
        said = [c for c in world.group("bad")["status"]["conditions"] if c["type"] == "Scheduled"]
        assert said[0]["reason"] == "Misconfigured"
        assert "three pods" in said[0]["message"]
        before = core.calls
        world.run(40)
        assert core.calls - before < 10, "it is not tried again and again"
        core.mended = True
        assert world.until(lambda: len(world.running("bad")) == 3, 120)
        said = [c for c in world.group("bad")["status"]["conditions"] if c["type"] == "Scheduled"]
        assert said[0]["status"] == "True"
        assert "three pods" not in said[0]["message"]


def test_a_core_that_fails_on_everything_is_asked_a_few_times_only() -> None:
    calls = 0

    def broken(snapshot: Snapshot) -> Plan:
        nonlocal calls
        calls += 1
        raise RuntimeError("whatever")

    with EvictWorld("1x8") as world:
        world.queues(a=8)
        for i in range(40):
            world.job(f"job-{i}", "a", 1)
        world.run(5)
        last = world.cluster.control.loop.last
        assert last is not None
        with pytest.raises(RuntimeError):
            isolation.decide_without_offenders(broken, last.encoded.snapshot)
        assert calls < 10


def _reject(world: EvictWorld, node: str) -> None:
    """From now on this node's kubelet refuses whatever is bound to it."""
    kubelet = world.cluster.kubelet
    admit = kubelet._admit

    def refusing(pod: Any, found: Any) -> bool:
        if found["metadata"]["name"] == node:
            kubelet._refuse(pod, "UnexpectedAdmissionError", "no healthy devices")
            return False
        return admit(pod, found)

    kubelet._admit = refusing  # type: ignore[method-assign]


def test_a_node_that_rejects_pods_is_left_alone_for_a_while() -> None:
    with EvictWorld("2x8") as world:
        world.queues(a=16)
        _reject(world, "node-0")
        world.deployment("web", "a", 8, 1)
        assert world.until(lambda: len(world.running("web")) == 8, 120)
        node = world.store.get(R.NODE, "node-0")
        assert "UnexpectedAdmissionError" in node["metadata"]["annotations"][L.QUARANTINE_REASON]
        assert any(reason == "Quarantined" for reason, _ in world.events("node-0"))
        row = view.build([node], [])[0]
        assert row.state == "Ready,Quarantined"
        assert len(world.cluster.kubelet.refused) <= 16
        world.run(700)
        notes = world.store.get(R.NODE, "node-0")["metadata"].get("annotations") or {}
        assert L.QUARANTINED_UNTIL not in notes


def test_a_gang_that_lost_a_member_comes_before_what_is_new() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=0, b=8)
        world.torch("old", "a", 4, 2)
        world.run(10)
        world.torch("new", "b", 1, 2)
        world.store.patch(R.QUEUE, "b", {"metadata": {"annotations": {L.QUEUE_PAUSED: "true"}}})
        world.run(5)
        lost = world.running("old-worker")[0]
        world.store.patch(R.QUEUE, "b", {"metadata": {"annotations": {L.QUEUE_PAUSED: None}}})
        world.store.delete(R.POD, lost, "default", grace_s=0)
        world.run(0.5)
        placed = [p["metadata"]["name"] for p in world.pods() if p["spec"].get("nodeName")]
        assert len([n for n in placed if n.startswith("old")]) == 4, placed


def test_explain_says_for_whom_and_by_which_rule() -> None:
    with EvictWorld("1x8") as world:
        world.queues(a=8, b=0)
        world.torch("lent", "b", 4, 2)
        world.run(10)
        world.torch("own", "a", 4, 2)
        assert world.until(lambda: bool(world.evictions()), 30)

        def said(name: str) -> str:
            clock = world.cluster.clock
            return explain_workload(world.store, "PyTorchJob", name, clock=clock).sentence

        beneficiary = said("own")
        assert "lent" in beneficiary and "Reclaimed" in beneficiary and "until" in beneficiary
        world.run(30)
        victim = said("lent")
        assert "own" in victim and "reclaim" in victim

"""Podgrouper, scheduler and binder as processes of their own on one API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kai_ray.api import labels as names
from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import Invalid
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers import ControlConfig
from kai_ray.manager import Composition, ManagerConfig
from tests.control import objects

SPLIT = (("podgrouper",), ("scheduler",), ("binder",))


class Cluster:
    """A store with two nodes, and processes that take turns."""

    def __init__(self, *parts: tuple[str, ...], only_shard: str | None = None) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock, seed=1)
        install_defaults(self.store)
        self.processes: dict[tuple[str, ...], tuple[Composition, Runtime]] = {}
        control = ControlConfig(period_s=0.1)
        for chosen in parts:
            config = ManagerConfig(control, components=chosen, only_shard=only_shard)
            composition, runtime = Composition(config), Runtime(self.store, self.clock)
            for controller in composition.controllers():
                runtime.add(controller)
            self.processes[chosen] = composition, runtime

    def run(self, seconds: float = 5.0) -> None:
        end = self.clock.now() + seconds
        while self.clock.now() < end:
            for _, runtime in self.processes.values():
                runtime.run_once()
            self.clock.advance_to(self.clock.now() + 0.1)
        assert not any(runtime.errors for _, runtime in self.processes.values())

    def job(self, name: str, pods: int, **labels: str) -> None:
        """A Job and its pods, as its controller would make them."""
        template = {**objects.pod("t")["spec"], "restartPolicy": "Never"}
        body = {"parallelism": pods, "completions": pods, "template": {"spec": template}}
        notes = {"kai.scheduler/batch-min-member": str(pods)}
        meta = {"name": name, "namespace": "default", "annotations": notes, "labels": labels}
        made = self.store.create(r.JOB, {"metadata": meta, "spec": body})
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "controller": True}
        for i in range(pods):
            pod = objects.pod(f"{name}-{i}", labels=labels)
            pod["metadata"]["ownerReferences"] = [{**owner, "uid": made["metadata"]["uid"]}]
            self.store.create(r.POD, pod)

    def placed(self, name: str) -> int:
        pods = self.store.list(r.POD, "default").items
        mine = [p for p in pods if p["metadata"]["name"].startswith(f"{name}-")]
        return sum(bool(p["spec"].get("nodeName")) for p in mine)


@pytest.fixture
def split() -> Iterator[Cluster]:
    cluster = Cluster(*SPLIT)
    cluster.store.create(r.NODE, objects.node("node-0"))
    yield cluster
    cluster.store.close()


def test_three_processes_do_what_one_does(split: Cluster) -> None:
    split.job("a", 4)
    split.run()
    assert split.placed("a") == 4
    (group,) = split.store.list(r.POD_GROUP).items
    assert group["spec"]["minMember"] == 4
    for pod in split.store.list(r.POD).items:
        assert pod["metadata"]["annotations"][names.POD_GROUP] == group["metadata"]["name"]
    assert group["status"]["phase"]


def test_the_scheduler_alone_decides_and_the_binder_alone_carries_out() -> None:
    cluster = Cluster(("podgrouper",), ("scheduler",))
    cluster.store.create(r.NODE, objects.node("node-0"))
    cluster.job("a", 2)
    cluster.run()
    requests = cluster.store.list(r.BIND_REQUEST).items
    assert [q["spec"]["selectedNode"] for q in requests] == ["node-0", "node-0"]
    assert cluster.placed("a") == 0


def test_a_pod_that_cannot_be_bound_is_tried_less_and_less_often(
    split: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []
    bind = MemoryStore.bind

    def refuse(store: MemoryStore, namespace: str, pod: str, node: str, **more: object) -> None:
        if pod == "bad-0":
            tries.append(split.clock.now())
            raise Invalid("nobody may bind this")
        bind(store, namespace, pod, node, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(MemoryStore, "bind", refuse)
    split.job("bad", 1)
    split.job("good", 2)
    split.run(120)
    assert split.placed("good") == 2 and split.placed("bad") == 0
    early = [t for t in tries if t < tries[0] + 60]
    late = [t for t in tries if t >= tries[0] + 60]
    assert len(late) < len(early) <= 40


def test_one_binder_serves_every_node_pool() -> None:
    cluster = Cluster(*SPLIT)
    store, pool = cluster.store, {names.NODE_POOL: "big"}
    store.create(r.NODE, objects.node("node-0", labels=pool))
    shard = {"metadata": {"name": "big"}, "spec": {"partitionLabelValue": "big"}}
    store.create(r.SCHEDULING_SHARD, shard)
    for queue in (names.DEFAULT_PARENT_QUEUE, names.DEFAULT_QUEUE):
        store.patch(r.QUEUE, queue, {"metadata": {"labels": pool}})
    cluster.job("a", 2, **pool)
    cluster.run(10)
    assert cluster.placed("a") == 2


@pytest.mark.parametrize(("only", "placed"), [("big", 2), ("small", 0)])
def test_a_process_for_one_node_pool_leaves_the_others_alone(only: str, placed: int) -> None:
    everything = ("podgrouper", "scheduler", "binder")
    cluster = Cluster(everything, only_shard=only)
    store, pool = cluster.store, {names.NODE_POOL: "big"}
    store.create(r.NODE, objects.node("node-0", labels=pool))
    for queue in (names.DEFAULT_PARENT_QUEUE, names.DEFAULT_QUEUE):
        store.patch(r.QUEUE, queue, {"metadata": {"labels": pool}})
    cluster.job("a", 2, **pool)
    cluster.run()
    assert cluster.placed("a") == placed


@pytest.mark.parametrize("components", [(), ("scheduler", "cook")])
def test_components_that_nobody_knows_are_named(components: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="podgrouper, scheduler, binder"):
        ManagerConfig(components=components)

"""Of several processes one speaks, and each of its own node pool."""

from __future__ import annotations

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.runtime import Runtime
from kai_ray.sight.notify import Notifier
from kai_ray.sight.notify.message import Message
from kai_ray.sight.sight import Sight
from tests.control import objects


class Process:
    """Sight and notifier alone: they see PodGroups that others decide about."""

    def __init__(self, store: MemoryStore, pool: str | None = None, *, leads: bool = True) -> None:
        self.leads = leads
        self.told: list[tuple[str, str]] = []
        self.runtime = Runtime(store, VirtualClock(), may_act=lambda: self.leads)
        sight = Sight()
        for controller in (sight, Notifier(sight, self, pool)):
            self.runtime.add(controller)

    def send(self, target: str, message: Message) -> None:
        self.told.append((message.name, message.kind))

    def run(self, seconds: float) -> list[tuple[str, str]]:
        self.told.clear()
        self.runtime.run_until(lambda: False, seconds)
        return list(self.told)


def stored() -> MemoryStore:
    store = MemoryStore(VirtualClock(), (), seed=1)
    install_defaults(store)
    notes = {names.NOTIFY: "ops", names.NOTIFY_AFTER: "10m"}
    store.patch(kinds.QUEUE, "default-queue", {"metadata": {"annotations": notes}})
    return store


def finished(store: MemoryStore, name: str) -> None:
    condition = {"type": "Finished", "status": "True", "reason": "WorkloadSucceeded"}
    body = {"status": {"conditions": [condition]}}
    store.patch(kinds.POD_GROUP, name, body, "default", subresource="status")


def test_a_standby_says_nothing_and_goes_on_where_the_leader_was() -> None:
    store = stored()
    standby = Process(store, leads=False)
    standby.run(1)
    for name in ("first", "second", "third"):
        store.create(kinds.POD_GROUP, objects.podgroup(name, "default-queue", 1))
    assert standby.run(300) == []
    finished(store, "first")
    assert standby.run(60) == []
    standby.leads = True
    assert standby.run(60) == []
    finished(store, "second")
    assert standby.run(60) == [("second", "ended")]
    assert standby.run(300) == [("third", "waiting")]


def test_what_the_leader_before_has_told_is_not_told_again() -> None:
    store = stored()
    standby = Process(store, leads=False)
    standby.run(1)
    store.create(kinds.POD_GROUP, objects.podgroup("patient", "default-queue", 1))
    standby.run(900)
    standby.leads = True
    assert standby.run(3600) == []


def test_each_of_several_shards_tells_of_its_own() -> None:
    store = stored()
    processes = {pool: Process(store, pool) for pool in ("", "gold")}
    for process in processes.values():
        process.run(1)
    for name, labels in (("plain", {}), ("rich", {names.NODE_POOL: "gold"})):
        group = objects.podgroup(name, "default-queue", 1)
        group["metadata"]["labels"] = labels
        store.create(kinds.POD_GROUP, group)
        finished(store, name)
    assert {pool: p.run(60) for pool, p in processes.items()} == {
        "": [("plain", "ended")],
        "gold": [("rich", "ended")],
    }

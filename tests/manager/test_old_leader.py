"""A leader that is stopped inside a write, replaced, and woken: what it still sends must not hurt.

It is stopped at each of its writes in turn. While it sleeps the world changes, so that what it had
decided is wrong by the time it goes on.
"""

from __future__ import annotations

from collections import Counter

import pytest

from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.memory import MemoryStore, install_defaults
from tests.control import objects
from tests.manager.processes import Process, Server, run

GPUS = 4
#: More than any run here has.
MOST_WRITES = 30


class Story:
    """One node; gang `a` waits for all of it. `b`, which goes first, comes while A sleeps."""

    def __init__(self, *, fences: bool = True) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock, seed=1)
        install_defaults(self.store)
        self.store.create(r.NODE, objects.node("node-0", GPUS))
        self.server = Server(self.store, fences=fences)
        self.a = Process("a", self.server, self.clock)
        self.b = Process("b", self.server, self.clock)
        self.overcommitted: list[dict[str, int]] = []

    def gang(self, name: str, priority: str) -> None:
        group = objects.podgroup(name, "default-queue", GPUS, priorityClassName=priority)
        self.store.create(r.POD_GROUP, group)
        for i in range(GPUS):
            self.store.create(r.POD, objects.pod(f"{name}-{i}", name))

    def run(self, seconds: float) -> None:
        run(self.clock, (self.a, self.b), seconds, self.look)

    def placed(self) -> Counter[str]:
        """Pods with a node, by gang."""
        return Counter(
            p["metadata"]["name"][0]
            for p in self.store.list(r.POD).items
            if p["spec"].get("nodeName")
        )

    def look(self) -> None:
        """Counts what the node holds, then lets it end what was told to go."""
        if sum(self.placed().values()) > GPUS:
            self.overcommitted.append(dict(self.placed()))
        for pod in self.store.list(r.POD).items:
            if pod["metadata"].get("deletionTimestamp"):
                self.store.delete(r.POD, pod["metadata"]["name"], "default", grace_s=0)

    def play(self, stop_at: int) -> bool:
        """False if A has not made so many writes."""
        self.a.wire.stop_at = stop_at
        self.run(1)
        self.gang("a", "train")
        self.run(3)
        if not self.a.stopped:
            return False
        self.gang("b", "build-preemptible")
        self.run(25)
        assert self.b.election.leads()
        self.a.wake()
        self.look()
        self.run(20)
        return True


def test_two_processes_place_what_one_does_and_only_the_leader_writes() -> None:
    story = Story()
    story.run(1)
    story.gang("a", "train")
    story.run(5)
    assert story.placed() == {"a": GPUS}
    assert story.a.wire.writes and not story.b.wire.writes


def test_the_standby_goes_on_when_the_leader_dies_and_when_it_says_goodbye() -> None:
    story = Story()
    story.run(1)
    story.a.election.release()
    story.gang("a", "train")
    run(story.clock, (story.b,), 4, story.look)
    assert story.placed() == {"a": GPUS}


@pytest.mark.parametrize("stop_at", range(MOST_WRITES))
def test_what_a_woken_leader_still_sends_never_promises_a_card_twice(stop_at: int) -> None:
    story = Story()
    if not story.play(stop_at):
        assert stop_at >= 2 * GPUS, "the leader wrote less than a gang's worth"
        return
    assert not story.overcommitted
    assert sorted(story.placed().values()) == [GPUS]
    assert story.b.election.leads() and not story.a.election.leads()
    # One write may have been under way; all after it were never sent.
    assert len(story.server.refused) <= 1


def test_without_the_policy_there_is_a_write_that_would_do_it() -> None:
    """The clock alone does not help a process that sleeps after its look: hence the policy."""
    stories = [Story(fences=False) for _ in range(MOST_WRITES)]
    assert any(s.play(i) and s.overcommitted for i, s in enumerate(stories))


def test_a_leader_that_was_replaced_forgets_and_may_lead_again() -> None:
    story = Story()
    life = story.a.life
    assert story.play(0)
    assert story.a.life is not life
    story.b.election.release()
    for i in range(GPUS):
        story.store.delete(r.POD, f"b-{i}", "default", grace_s=0)
    run(story.clock, (story.a,), 5, story.look)
    assert story.a.election.leads()
    assert story.placed() == {"a": GPUS}

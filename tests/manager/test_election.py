"""Stories of a lease: who holds it, when another may take it, and that there are never two."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import VirtualClock
from kai_ray.cluster.leases import Election, LeaseConfig
from kai_ray.cluster.memory import MemoryStore, install_defaults
from kai_ray.cluster.port import AlreadyExists, Conflict, Object, Unavailable

SPACE = "kube-system"


class World:
    """A store and candidates whose own clocks start anywhere."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        install_defaults(self.store)

    def candidate(self, name: str, *, port: Any = None, offset_s: float = 0.0) -> Election:
        config = LeaseConfig(name, namespace=SPACE)
        return Election(
            port or self.store,
            config,
            self.clock,
            steady=lambda: self.clock.now() + offset_s,
            rng=random.Random(name),
        )

    def lease(self) -> Object:
        return self.store.get(r.LEASE, "kai-ray", SPACE)["spec"]

    def pass_s(self, seconds: float) -> None:
        self.clock.advance_to(self.clock.now() + seconds)


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_one_makes_the_lease_and_leads(world: World) -> None:
    a = world.candidate("a")
    assert not a.leads()
    assert a.step() == 2.0
    assert a.leads()
    assert world.lease()["holderIdentity"] == "a"
    assert world.lease()["leaseDurationSeconds"] == 15
    assert world.lease()["leaseTransitions"] == a.term == 0


def test_a_standby_waits_until_the_lease_has_run_out_for_as_long_as_it_has_seen_it(
    world: World,
) -> None:
    a, b = world.candidate("a"), world.candidate("b", offset_s=-5000)
    a.step()
    world.pass_s(14)
    b.step()  # sees it for the first time: its own 15 seconds begin
    world.pass_s(14)
    b.step()
    assert not b.leads()
    world.pass_s(1.1)
    b.step()
    assert b.leads()
    assert (world.lease()["holderIdentity"], world.lease()["leaseTransitions"]) == ("b", 1)


def test_a_standby_comes_when_the_lease_runs_out_and_not_a_try_later(world: World) -> None:
    a, b = world.candidate("a"), world.candidate("b")
    a.step()
    world.pass_s(1)
    waited = 0.0
    while not b.leads():
        wait_s = b.step()
        if not b.leads():
            world.pass_s(wait_s)
            waited += wait_s
    assert 15.0 <= waited < 15.2


def test_who_renews_keeps_it_and_its_term(world: World) -> None:
    a, b = world.candidate("a"), world.candidate("b")
    for _ in range(20):
        world.pass_s(a.step())
        b.step()
    assert a.leads() and not b.leads()
    assert world.lease()["leaseTransitions"] == 0
    assert world.lease()["acquireTime"] < world.lease()["renewTime"]


def test_who_cannot_renew_stops_five_seconds_before_anybody_else_begins(world: World) -> None:
    deaf = Faulty(world.store)
    a, b = world.candidate("a", port=deaf), world.candidate("b")
    a.step()
    b.step()
    deaf.fault = lambda write: Unavailable("no answer")
    world.pass_s(9.9)
    a.step()
    assert a.leads()
    world.pass_s(0.2)
    assert not a.leads()
    a.step()
    assert not a.holds()
    b.step()
    assert not b.leads()
    world.pass_s(5)
    b.step()
    assert b.leads()


def test_what_is_given_back_is_taken_at_once(world: World) -> None:
    a, b = world.candidate("a"), world.candidate("b")
    a.step()
    b.step()
    a.release()
    assert not a.leads()
    b.step()
    assert b.leads()
    assert world.lease()["leaseTransitions"] == 1


def test_nobody_gives_back_what_another_holds(world: World) -> None:
    a, b = world.candidate("a"), world.candidate("b")
    a.step()
    b.step()
    world.pass_s(15.1)
    b.step()
    a.release()
    assert world.lease()["holderIdentity"] == "b"


def test_a_leader_that_slept_learns_that_it_has_been_replaced(world: World) -> None:
    a, b = world.candidate("a"), world.candidate("b")
    a.step()
    b.step()
    world.pass_s(300)
    b.step()
    assert not a.leads()  # by its own clock, before it has asked anybody
    a.step()
    assert not a.holds() and b.leads()


def test_a_leader_that_slept_and_was_not_replaced_goes_on_in_its_term(world: World) -> None:
    a = world.candidate("a")
    a.step()
    world.pass_s(300)
    assert not a.leads()
    a.step()
    assert a.leads() and a.term == 0


def test_a_term_is_never_taken_up_again_after_somebody_elses(world: World) -> None:
    a, b = world.candidate("a"), world.candidate("b")
    a.step()
    b.step()
    world.pass_s(16)
    b.step()
    b.release()
    a.step()
    a.step()
    assert a.leads()
    assert a.term == world.lease()["leaseTransitions"] == 2


def test_two_lives_of_one_name_are_two_terms(world: World) -> None:
    world.candidate("a").step()
    again = world.candidate("a")
    again.step()
    assert again.leads() and again.term == 1


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 2, 2), (15, 10, 0)])
def test_times_that_cannot_work_are_refused(times: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="lease"):
        LeaseConfig("a", "n", "s", *times)


class Faulty:
    """The store, with a fault or a delay at any call."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.fault: Callable[[bool], Exception | None] = lambda write: None
        self.after: Callable[[], Exception | None] = lambda: None
        self.delay: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)

        def faulty(*args: Any, **kwargs: Any) -> Any:
            self.delay()
            if error := self.fault(name != "get"):
                raise error
            answer = call(*args, **kwargs)
            self.delay()
            if error := self.after():
                raise error
            return answer

        return faulty


FAULTS = (Unavailable("no answer"), Conflict("somebody wrote"), AlreadyExists("it is there"))


@settings(max_examples=25)
@given(st.integers(min_value=0, max_value=2**32))
def test_there_are_never_two_leaders_and_soon_one(seed: int) -> None:
    """Three candidates on faulty, slow wires, stopped and woken at random for ten minutes."""
    rng = random.Random(seed)
    world = World()
    calm = False

    def delay() -> None:
        if not calm and rng.random() < 0.3:
            world.pass_s(rng.choice((0.05, 0.5, 3.0)))

    def fault(write: bool = True) -> Exception | None:
        return rng.choice(FAULTS) if not calm and rng.random() < 0.15 else None

    candidates: list[Election] = []
    for i in range(3):
        port = Faulty(world.store)
        port.fault, port.after, port.delay = fault, fault, delay
        candidates.append(
            world.candidate(f"c{i}", port=port, offset_s=rng.uniform(-1e6, 1e6)),
        )
    start = world.clock.now()
    turns = [(start, i) for i in range(3)]
    seen: dict[int, int] = {}
    while turns[0][0] < start + 700:
        when, i = heapq.heappop(turns)
        world.clock.advance_to(when)
        calm = when > start + 600
        wait_s = candidates[i].step()
        leading = [k for k, c in enumerate(candidates) if c.leads()]
        assert len(leading) <= 1, (seed, leading)
        for k in leading:
            assert seen.setdefault(candidates[k].term, k) == k, "one term, two leaders"
        if not calm and rng.random() < 0.02:
            wait_s += rng.choice((4, 11, 40))  # stopped
        heapq.heappush(turns, (world.clock.now() + wait_s, i))
    assert sum(c.leads() for c in candidates) == 1

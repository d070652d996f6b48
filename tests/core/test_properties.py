"""What holds for every cluster: the laws of the plan, of rules, of the ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kai_ray.scheduler import DEFAULT, Placement
from kai_ray.scheduler.fit import Fit, Fits
from kai_ray.scheduler.ledger import Ledger, OvercommittedError
from kai_ray.scheduler.policy import policy
from kai_ray.scheduler.rules import ALL
from kai_ray.scheduler.shares.books import queue_books
from kai_ray.scheduler.shares.fair_share import fair_share
from kai_ray.scheduler.snapshot import USED, Snapshot, TaskState
from tests.core import strategies as some
from tests.core.world import Job, Node, Outcome, Pod, World

_policies = st.sampled_from([DEFAULT, policy(Placement.SPREAD, Placement.SPREAD)])


def ledger_of(snapshot: Snapshot) -> Ledger:
    books = queue_books(snapshot)
    share = fair_share(snapshot.queues, snapshot.total, books.request, 1.0)
    return Ledger(snapshot, books, share)


def fits_of(ledger: Ledger) -> Fits:
    return Fits(ledger, DEFAULT.filters, DEFAULT.scores)


def pending_classes(snapshot: Snapshot) -> list[int]:
    return sorted(set(snapshot.tasks.klass[snapshot.tasks.state == TaskState.PENDING].tolist()))


@settings(max_examples=80, deadline=None)
@given(some.worlds(), _policies)
def test_no_node_is_overcommitted(world: World, chosen) -> None:
    snapshot, out = world.snapshot(), world.decide(chosen)
    tasks, request, plan = snapshot.tasks, snapshot.classes.request, out.plan
    free = snapshot.nodes.allocatable.copy()
    charged = free > 0  # a node without any of a resource is not charged for it

    def move(rows: list[int], nodes: list[int], sign: int) -> None:
        for t, n in zip(rows, nodes, strict=True):
            free[:, n] += sign * request[:, tasks.klass[t]] * charged[:, n]

    used = np.flatnonzero(np.isin(tasks.state, [int(s) for s in USED]))
    leaving = np.flatnonzero(tasks.state == TaskState.RELEASING)
    move(used.tolist(), tasks.node[used].tolist(), -1)
    overdrawn = np.minimum(free, 0)
    move(plan.bind_task.tolist(), plan.bind_node.tolist(), -1)
    assert (free[:, np.unique(plan.bind_node)] >= 0).all()
    move(leaving.tolist(), tasks.node[leaving].tolist(), +1)
    move(plan.evict_task.tolist(), tasks.node[plan.evict_task].tolist(), +1)
    move(plan.nominate_task.tolist(), plan.nominate_node.tolist(), -1)
    assert (free >= overdrawn).all()


@settings(max_examples=80, deadline=None)
@given(some.worlds(), _policies)
def test_a_gang_gets_its_minimum_or_nothing(world: World, chosen) -> None:
    out = world.decide(chosen)
    given_ = Counter(pod.rsplit("-", 1)[0] for pod in [*out.bound, *out.nominated])
    bound = Counter(pod.rsplit("-", 1)[0] for pod in out.bound)
    for job in world.jobs:
        if job.pods[0].state is TaskState.PENDING:
            assert given_[job.name] == 0 or given_[job.name] >= job.minimum
            assert bound[job.name] == 0 or bound[job.name] >= job.minimum


@settings(max_examples=70, deadline=None)
@given(some.worlds())
def test_limits_and_quotas_hold_at_every_queue(world: World) -> None:
    out = world.decide()
    parent = {q.name: q.parent for q in world.queues}
    used, firm = Counter[str](), Counter[str]()
    for job in world.jobs:
        for i, pod in enumerate(job.pods):
            name = f"{job.name}-{i}"
            stays = pod.state is TaskState.RUNNING and name not in out.evicted
            held = stays or name in out.bound or name in out.nominated
            queue = job.queue if held else ""
            while queue:
                used[queue] += pod.gpus
                firm[queue] += 0 if job.preemptible else pod.gpus
                queue = parent[queue]
    for queue in world.queues:
        if queue.gpu_limit >= 0:
            assert used[queue.name] <= queue.gpu_limit
        if queue.gpu_quota >= 0:
            assert firm[queue.name] <= queue.gpu_quota
    allocated = dict(zip(parent, out.plan.allocated[2].tolist(), strict=True))
    assert allocated == {name: float(used[name]) for name in parent}


@settings(max_examples=70, deadline=None)
@given(some.worlds())
def test_each_gang_that_waits_says_why_and_no_other_does(world: World) -> None:
    out = world.decide()
    for job in world.jobs:
        names = [f"{job.name}-{i}" for i in range(len(job.pods))]
        left = [
            name
            for name, pod in zip(names, job.pods, strict=True)
            if pod.state is TaskState.PENDING and name not in out.bound
        ]
        assert bool(left) == (job.name in out.waits)
        if left:
            assert out.headline(job.name)
            out.details(job.name)


@settings(max_examples=70, deadline=None)
@given(some.worlds(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(world: World, random) -> None:
    nodes, jobs = world.nodes[:], world.jobs[:]
    random.shuffle(nodes)
    random.shuffle(jobs)
    before, after = world.decide(), World(nodes, jobs, world.queues).decide()
    assert (before.bound, before.nominated) == (after.bound, after.nominated)
    assert {n: w.reason for n, w in before.waits.items()} == {
        n: w.reason for n, w in after.waits.items()
    }


@settings(max_examples=70, deadline=None)
@given(some.worlds(), st.randoms(use_true_random=False))
def test_permuting_nodes_permutes_every_rule(world: World, random) -> None:
    order = list(range(len(world.nodes)))
    random.shuffle(order)
    shuffled = World([world.nodes[i] for i in order], world.jobs, world.queues)
    left, right = ledger_of(world.snapshot()), ledger_of(shuffled.snapshot())
    for klass in pending_classes(left.snapshot):
        one, two = fits_of(left).of(klass), fits_of(right).of(klass)
        assert np.array_equal(one.value, two.value)
        assert np.isfinite(one.value[one.later > 0]).all()
        assert np.array_equal(one.later, two.later)


@settings(max_examples=70, deadline=None)
@given(some.worlds(), st.integers(0, 4))
def test_more_room_never_turns_a_node_away(world: World, more: int) -> None:
    def enlarged(n: Node) -> Node:  # one without any GPU is not charged for those in use: stays so
        return replace(n, gpus=n.gpus and n.gpus + more, cpu=n.cpu * 2, pods=n.pods + 9)

    larger = World([enlarged(n) for n in world.nodes], world.jobs, world.queues)
    small, large = ledger_of(world.snapshot()), ledger_of(larger.snapshot())
    for klass in pending_classes(small.snapshot):
        for rule in DEFAULT.filters:
            before, after = (rule.allows(book, klass, ALL) for book in (small, large))
            assert (before is None) == (after is None)
            if before is not None and after is not None:
                assert not (before & ~after).any()
        assert (fits_of(small).of(klass).now <= fits_of(large).of(klass).now).all()


@settings(max_examples=80, deadline=None)
@given(some.worlds(), st.data())
def test_rolling_back_restores_the_ledger_exactly(world: World, data: st.DataObject) -> None:
    snapshot = world.snapshot()
    ledger, fresh = ledger_of(snapshot), ledger_of(snapshot)
    fits = fits_of(ledger)
    classes = pending_classes(snapshot)
    for _ in range(data.draw(st.integers(1, 4))):
        mark = ledger.trial()
        for _ in range(data.draw(st.integers(1, 5))):
            klass = data.draw(st.sampled_from(classes))
            node = data.draw(st.integers(0, len(world.nodes) - 1))
            idle, later, pods = (data.draw(st.integers(-2, 2)) for _ in range(3))
            ledger.book(klass, node, idle, later, pods)
            ledger.charge(1, (1.5, 0.1, data.draw(st.floats(0, 1))), True)
            ledger.fill(1, 1, pods)
            fits.of(klass)
        ledger.roll_back(mark)
    assert books_of(ledger) == books_of(fresh)
    for klass in classes:
        used, new = fits.of(klass), fits_of(fresh).of(klass)
        assert np.array_equal(used.value, new.value)
        assert np.array_equal(used.later, new.later)


def books_of(ledger: Ledger) -> tuple:
    counters = [c.counts.tolist() for moved in ledger._moved for c in moved]
    queues = [(q.allocated, q.non_preemptible) for q in ledger.queues]
    arrays = [a.tolist() for a in (ledger.idle, ledger.releasing, ledger.ports)]
    return arrays, counters, queues, ledger.held, ledger.firm, ledger.waiting


@settings(max_examples=80, deadline=None)
@given(some.worlds(), st.data())
def test_a_fit_that_follows_changes_equals_one_made_anew(world: World, data: st.DataObject) -> None:
    snapshot = world.snapshot()
    ledger = ledger_of(snapshot)
    fits, classes = fits_of(ledger), pending_classes(snapshot)
    for _ in range(data.draw(st.integers(1, 8))):
        klass = data.draw(st.sampled_from(classes))
        fit = fits.get(klass)
        offer = fit.offer()
        fresh = Fit(ledger, klass, DEFAULT.filters, DEFAULT.scores)
        expected = fresh.offer()
        assert (offer.node, offer.later) == (expected.node, expected.later)
        if offer.room:
            assert 0 < offer.room <= expected.room
            ledger.book(klass, offer.node, *((0, 1) if offer.later else (1, 0)), 1)
            fit.took(offer, 1)


small_nodes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=4).map(
    lambda rows: [Node(f"n{i}", gpus=g, cpu=c * 1000) for i, (g, c) in enumerate(rows)]
)


@settings(max_examples=70, deadline=None)
@given(small_nodes, st.integers(0, 3), st.integers(0, 3), st.integers(1, 8), _policies)
def test_a_gang_of_equals_starts_exactly_if_any_assignment_exists(
    nodes: list[Node], gpus: int, cpu: int, size: int, chosen
) -> None:
    assume(gpus or cpu)
    pod = Pod(gpus=gpus, cpu=cpu * 1000)
    room = sum(
        min(
            node.gpus // gpus if gpus else 99,
            node.cpu // (cpu * 1000) if cpu else 99,
            node.pods,
        )
        for node in nodes
    )
    out = World(nodes, [Job("g", [pod] * size, minimum=size)]).decide(chosen)
    assert len(out.bound) == (size if room >= size else 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.lists(st.integers(1, 3), max_size=4))
def test_no_gang_is_left_out_that_would_still_fit(free: list[int], sizes: list[int]) -> None:
    """Brute force: after the plan, no waiting gang of one pod shape has an assignment left."""
    nodes = [Node(f"n{i}", gpus=g) for i, g in enumerate(free)]
    jobs = [Job(f"j{i}", [Pod(gpus=s)] * 2, minimum=2) for i, s in enumerate(sizes)]
    out = World(nodes, jobs).decide()
    left = list(free)
    for pod, node in out.bound.items():
        left[int(node[1:])] -= sizes[int(pod[1:].split("-")[0])]
    for job, size in zip(jobs, sizes, strict=True):
        if job.name in out.waits:
            options = product(range(len(left)), repeat=2)
            assert not any(_possible(left, choice, size) for choice in options)


def _possible(left: list[int], choice: tuple[int, ...], size: int) -> bool:
    rest = list(left)
    for node in choice:
        rest[node] -= size
    return min(rest) >= 0


@pytest.mark.parametrize("size", [1, 3])
def test_waiting_gangs_of_one_class_share_their_diagnosis(size: int) -> None:
    jobs = [Job(f"j{i:03}", [Pod(gpus=5)] * size, minimum=size) for i in range(50)]
    out: Outcome = World([Node("a"), Node("b", gpus=4)], jobs).decide()
    waits = [w for w in out.plan.waits if w.klass >= 0]
    assert len(waits) == (49 if size == 1 else 50)
    assert len({(w.reason, w.counts, w.nearest, w.missing) for w in waits}) == 1


def test_an_action_that_overcommits_a_node_is_found_out() -> None:
    def careless(session) -> None:
        session.ledger.book(0, 0, 9, 0, 9)

    world = World([Node("a", gpus=8)], [Job("j")])
    with pytest.raises(OvercommittedError, match="node row 0 was promised more gpu"):
        world.decide(replace(DEFAULT, actions=(careless,)))

"""The book of devices never promises more than a card, whatever is placed, promised and undone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_ray.scheduler.actions.allocate import allocate
from kai_ray.scheduler.gpu.order import packed, spread_out
from kai_ray.scheduler.ledger import Ledger
from kai_ray.scheduler.policy import Placement, policy
from kai_ray.scheduler.shares.books import queue_books
from kai_ray.scheduler.snapshot import GPU
from tests.core.world import Job, Node, Outcome, Pod, TaskState, World

parts = st.sampled_from([0.1, 0.25, 0.3, 0.5, 0.6, 0.9])
shares = st.one_of(
    st.builds(lambda part, k: Pod(gpus=0, part=part, devices=k), parts, st.integers(1, 3)),
    st.builds(lambda mib, k: Pod(gpus=0, mib=mib, devices=k), st.integers(1, 90_000), st.just(1)),
    st.builds(lambda n: Pod(gpus=n), st.integers(1, 2)),
)
clusters = st.lists(
    st.builds(
        lambda gpus, card: (gpus, card), st.integers(0, 4), st.sampled_from([0, 16_000, 80_000])
    ),
    min_size=1,
    max_size=3,
).map(lambda rows: [Node(f"n{i}", gpus=g, card=c, pods=20) for i, (g, c) in enumerate(rows)])
moves = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 2), st.sampled_from("plumku"), st.booleans()),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(clusters, st.lists(shares, min_size=1, max_size=8), moves)
def test_random_moves_and_their_undoing(
    nodes: list[Node], pods: list[Pod], steps: list[tuple[int, int, str, bool]]
) -> None:
    """p = place, l = promise, u = undo to the last mark, m = mark, k = keep, others evict."""
    snapshot = World(nodes, [Job(f"j{i}", [pod]) for i, pod in enumerate(pods)]).snapshot()
    books = queue_books(snapshot)
    ledger = Ledger(snapshot, books, np.zeros((3, 1)))
    marks: list[tuple[int, list[np.ndarray], int]] = []
    placed: list[tuple[int, int, tuple[int, ...]]] = []
    for which, at, word, spread in steps:
        klass = int(snapshot.tasks.klass[which % len(pods)])
        node = at % len(nodes)
        if word == "m":
            marks.append((ledger.trial(), _picture(ledger), len(placed)))
        elif word == "u" and marks:
            mark, before, count = marks.pop()
            ledger.roll_back(mark)
            for was, now in zip(before, _picture(ledger), strict=True):
                assert (was == now).all()
            del placed[count:]
        elif word == "k":
            ledger.keep()
            marks.clear()
        elif word in "pl" and ledger.gpus is not None and ledger.gpus.shares[klass]:
            order = spread_out if spread else packed
            choice = ledger.choose(klass, node, order, later_only=word == "l")
            if choice is not None and ledger.idle[3, node] > 0:
                assert len(set(choice.slots)) == ledger.gpus.devices.devices[klass]
                now = not choice.later
                ledger.book(klass, node, int(now), int(not now), 1, choice.slots)
                if now:
                    placed.append((klass, node, choice.slots))
        elif word == "p" and ledger.gpus is not None and not ledger.gpus.shares[klass]:
            wanted = int(snapshot.classes.request[GPU, klass])
            free = ledger.idle[GPU, node], ledger.idle[GPU, node] + ledger.releasing[GPU, node]
            if min(free) >= wanted:
                ledger.book(klass, node, 1, 0, 1)
        ledger.verify()
    # all who were given a part leave: the parts come back
    for klass, node, slots in placed:
        ledger.release(klass, node, 1, slots)
    if ledger.gpus is not None:
        assert not ledger.gpus.devices.firm.any()
    ledger.verify()


def _picture(ledger: Ledger) -> list[np.ndarray]:
    found = [ledger.idle.copy(), ledger.releasing.copy()]
    if ledger.gpus is not None:
        devices = ledger.gpus.devices
        found += [devices.firm.copy(), devices.leaving.copy(), devices.promised.copy()]
    return found


@settings(max_examples=150, deadline=None)
@given(clusters, st.lists(shares, min_size=1, max_size=14), st.booleans())
def test_no_card_ever_holds_more_than_it_has(
    nodes: list[Node], pods: list[Pod], spread: bool
) -> None:
    jobs = [Job(f"j{i:02}", [pod], created=float(i)) for i, pod in enumerate(pods)]
    chosen = policy(Placement.SPREAD if spread else Placement.BINPACK)
    out = World(nodes, jobs).decide(replace(chosen, actions=(allocate,)))
    _check_cards(nodes, {f"j{i:02}-0": pod for i, pod in enumerate(pods)}, out)
    _check_complete(nodes, {f"j{i:02}-0": pod for i, pod in enumerate(pods)}, out)


def _check_cards(nodes: list[Node], pods: dict[str, Pod], out: Outcome) -> dict[str, float]:
    """Sums per card; answers the whole GPUs that each node has left."""
    held: dict[tuple[str, int], float] = defaultdict(float)
    whole: dict[str, float] = defaultdict(float)
    card = {node.name: node.card or 100 for node in nodes}
    for name, node in out.bound.items():
        pod = pods[name]
        whole[node] += pod.gpus
        slots = out.devices.get(name, ())
        assert len(set(slots)) == (pod.devices if pod.part or pod.mib else 0)
        for slot in slots:
            held[node, slot] += max(pod.mib or np.floor(pod.part * card[node] + 1e-6), 1)
    assert all(used <= card[node] for (node, _), used in held.items())
    left: dict[str, float] = {}
    for node in nodes:
        shared = sum(where == node.name for where, _ in held)
        left[node.name] = node.gpus - shared - whole[node.name]
        assert left[node.name] >= 0
    return left


def _check_complete(nodes: list[Node], pods: dict[str, Pod], out: Outcome) -> None:
    """Whoever waits with a share of one card would not fit on a whole GPU that is left."""
    left = _check_cards(nodes, pods, out)
    for name in set(pods) - set(out.bound):
        pod = pods[name]
        for node in nodes:
            fits = pod.mib <= node.card if pod.mib else True
            if pod.devices == 1 and fits and left[node.name] >= max(pod.gpus, 1):
                raise AssertionError(f"{name} waits although {node.name} has a GPU left")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(parts, st.integers(0, 3), st.booleans()), max_size=8),
    st.lists(shares, min_size=1, max_size=4),
)
def test_what_runs_and_what_leaves_is_never_overbooked(
    there: list[tuple[float, int, bool]], pods: list[Pod]
) -> None:
    """Nominations too keep within the card once the leavers have gone."""
    running = [
        Pod(
            gpus=0,
            part=part,
            node="n",
            slots=(slot,),
            state=TaskState.RELEASING if leaves else TaskState.RUNNING,
        )
        for part, slot, leaves in there
    ]
    jobs = [Job(f"r{i}", [pod]) for i, pod in enumerate(running)]
    jobs += [Job(f"p{i}", [pod], created=float(i)) for i, pod in enumerate(pods)]
    out = World([Node("n", gpus=4, card=80_000)], jobs).decide()
    stays: dict[int, float] = defaultdict(float)
    now: dict[int, float] = defaultdict(float)
    for part, slot, leaves in there:
        now[slot] += part * 80_000
        stays[slot] += 0 if leaves else part * 80_000
    for i, (part, slot, _) in enumerate(there):
        if f"r{i}-0" in out.evicted:
            stays[slot] -= part * 80_000
            for other in out.devices.get(f"r{i}-0", ()):
                stays[other] += part * 80_000
    full = {slot for slot in now if now[slot] > 80_000 or stays[slot] > 80_000}
    for i, pod in enumerate(pods):
        name = f"p{i}-0"
        for slot in out.devices.get(name, ()):
            assert name in out.bound or name in out.nominated
            amount = pod.mib or pod.part * 80_000
            stays[slot] += amount
            now[slot] += amount if name in out.bound else 0
    assert all(stays[slot] <= 80_001 and now[slot] <= 80_001 for slot in {*stays, *now} - full)

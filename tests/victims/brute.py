"""Every set of victims tried, on small clusters: does one serve, and how few pods does it take.

`python -m tests.victims.brute [--seeds N]` compares the search with all subsets of the steps that
its rule allows: found where one exists, and the ratio of pods that leave to the fewest possible.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import combinations
from random import Random
from typing import NamedTuple

from kai_ray.scheduler.actions import preempt, reclaim
from kai_ray.scheduler.actions.attempt import Attempts
from kai_ray.scheduler.admittance import queue_refusal
from kai_ray.scheduler.fit import Fits
from kai_ray.scheduler.ledger import Ledger
from kai_ray.scheduler.pending import Pending
from kai_ray.scheduler.policy import DEFAULT
from kai_ray.scheduler.session import Session
from kai_ray.scheduler.shares.books import queue_books
from kai_ray.scheduler.shares.fair_share import fair_share
from kai_ray.scheduler.snapshot import Snapshot
from kai_ray.scheduler.victims.books import VictimBooks
from kai_ray.scheduler.victims.order import VictimOrder
from kai_ray.scheduler.victims.search import Rule, Search
from kai_ray.scheduler.victims.serve import Claimant
from kai_ray.scheduler.victims.simulation import Outcome, Simulation
from kai_ray.scheduler.victims.steps import Step
from tests.core.world import Job, Node, Pod, Queue, World, running

#: Steps of which all subsets are tried.
MOST_STEPS = 10


class Compared(NamedTuple):
    """One gang: pods that leave by the search and at least; -1 = nothing serves."""

    found: int
    fewest: int


def small_world(seed: int) -> World:
    """At most 6 nodes and 8 jobs: a full cluster and one gang that waits."""
    random = Random(seed)
    nodes = [Node(f"n{i}", gpus=random.choice((1, 2, 2, 4))) for i in range(random.randint(1, 6))]
    free = {node.name: node.gpus for node in nodes}
    queues = [Queue("q", gpu_quota=float(random.randint(0, 6)))]
    queues += [Queue(n, gpu_quota=float(random.randint(0, 4))) for n in ("a", "b")]
    jobs: list[Job] = []
    for i in range(random.randint(2, 7)):
        pods: list[Pod] = []
        gpus = random.choice((1, 1, 2))
        for _ in range(random.choice((1, 1, 2, 3))):
            fits = [name for name, left in free.items() if left >= gpus]
            if fits:
                at = random.choice(fits)
                free[at] -= gpus
                pods.append(running(at, gpus=gpus))
        if pods:
            jobs.append(
                Job(
                    f"r{i}",
                    pods,
                    random.randint(1, len(pods)),
                    random.choice(("q", "a", "b")),
                    random.choice((40, 50, 60)),
                    random.random() < 0.9,
                    created=float(i),
                )
            )
    pods_wanted = random.choice((1, 1, 2, 3))
    pods = [Pod(gpus=random.choice((1, 2, 2)))] * pods_wanted
    jobs.append(Job("asks", pods, pods_wanted, "q", 55, created=99.0))
    return World(nodes, jobs, queues)


def session_of(snapshot: Snapshot) -> Session:
    """A session before any action."""
    books = queue_books(snapshot)
    share = fair_share(snapshot.queues, snapshot.total, books.request, 1.0)
    ledger = Ledger(snapshot, books, share)
    pending = Pending(snapshot, DEFAULT.task_order)
    return Session(
        snapshot=snapshot,
        policy=DEFAULT,
        ledger=ledger,
        fits=Fits(ledger, DEFAULT.filters, DEFAULT.scores),
        pending=pending,
        attempts=Attempts(ledger, pending),
        total=snapshot.total,
        refusal=queue_refusal(snapshot),
    )


def compare(world: World) -> Iterator[Compared]:
    """The gang that asks, by reclaim and by preempt."""
    for action in (reclaim, preempt):
        session = session_of(world.snapshot())
        books = VictimBooks(session)
        session.victims = books
        gang = len(world.jobs) - 1
        attempt = session.attempts.next(gang)
        path = session.ledger.path(books.queue[gang])
        claimant = Claimant(gang, attempt, path, books.preemptible[gang], books.priority[gang])
        if not attempt.runs or bool(session.ledger.idle[2].sum() >= attempt.need[2]):
            continue
        for rule in action._rules(books, claimant):
            order = VictimOrder(books, rule.leaves(), rule.spare, rule.admits)
            steps = list(iter(order.next, None))
            if len(steps) > MOST_STEPS:
                continue
            simulation = Simulation(books, gang, attempt)
            fewest = _fewest(steps, simulation, rule, session.ledger)
            rule = action._rules(books, claimant)[0]
            outcome = Search(books, gang, attempt, rule).find()
            yield Compared(_pods(outcome), fewest)


def _fewest(steps: list[Step], simulation: Simulation, rule: Rule, ledger: Ledger) -> int:
    best = -1
    for size in range(1, len(steps) + 1):
        for chosen in combinations(steps, size):
            if not _closed(chosen, steps):
                continue
            outcome = simulation.run(chosen)
            if outcome is None:
                continue
            if rule.legal(outcome) and (best < 0 or _pods(outcome) < best):
                best = _pods(outcome)
            ledger.roll_back(outcome.mark)
    return best


def _closed(chosen: tuple[Step, ...], steps: list[Step]) -> bool:
    """A gang's core goes only after all of its surplus."""
    cores = {step.gang for step in chosen if step.core}
    return all(step in chosen for step in steps if step.gang in cores)


def _pods(outcome: Outcome | None) -> int:
    return -1 if outcome is None else sum(len(outcome.away(step)) for step in outcome.steps)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.victims.brute", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000)
    options = parser.parse_args()
    cases = [(seed, c) for seed in range(options.seeds) for c in compare(small_world(seed))]
    served = [(seed, c) for seed, c in cases if c.fewest >= 0]
    missed = [seed for seed, c in served if c.found < 0]
    ratios = [max(c.found, 1) / max(c.fewest, 1) for _, c in served if c.found >= 0]
    print(f"{len(cases)} cases, {len(served)} can be served, {len(missed)} missed {missed[:10]}")
    if ratios:
        print(
            f"pods that leave to the fewest: mean {sum(ratios) / len(ratios):.3f}, "
            f"worst {max(ratios):.2f}"
        )


if __name__ == "__main__":
    main()

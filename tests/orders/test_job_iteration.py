"""The order that is kept up step by step equals one that is sorted anew before every step."""

from __future__ import annotations

import functools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kai_ray.scheduler.orders.job_iteration import Job, JobIteration
from kai_ray.scheduler.orders.job_order import job_key
from kai_ray.scheduler.orders.queue_order import compare, standing
from kai_ray.scheduler.shares.row import NOTHING, Amounts, QueueRow

TOTAL: Amounts = (40.0, 40.0, 40.0)
_bound = st.sampled_from([-1.0, 0.0, 2.0, 4.0, 8.0])
_few = st.sampled_from([0.0, 1.0, 2.0, 4.0])


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[QueueRow], dict[int, list[Job]], dict[int, Amounts]]:
    """Queues in a tree, gangs in leaves, and what each gang takes."""
    count = draw(st.integers(1, 8))
    parent = [draw(st.integers(-1, i - 1)) for i in range(count)]
    rows = [
        QueueRow(
            queue=i,
            parent=parent[i],
            priority=draw(st.sampled_from([1, 2])),
            created_s=draw(st.sampled_from([0.0, 1.0])),
            rank=i,
            quota=draw(st.tuples(_bound, _bound, _bound)),
            limit=(-1.0, -1.0, -1.0),
            fair_share=draw(st.tuples(_few, _few, _few)),
            allocatable=draw(st.tuples(_bound, _bound, _bound)),
        )
        for i in range(count)
    ]
    jobs: dict[int, list[Job]] = {}
    need: dict[int, Amounts] = {}
    for gang in range(draw(st.integers(1, 12))):
        leaf = draw(st.sampled_from([i for i in range(count) if i not in parent]))
        priority, age = draw(st.integers(1, 3)), draw(st.integers(0, 3))
        jobs.setdefault(leaf, []).append((job_key(priority, 0, float(age), gang), gang))
        need[gang] = draw(st.tuples(_few, _few, _few))
    return rows, {leaf: sorted(waiting) for leaf, waiting in jobs.items()}, need


class Resorted:
    """The same order by sorting every level of the tree before each step."""

    def __init__(self, rows: list[QueueRow], jobs: dict[int, list[Job]], need: dict) -> None:
        self.rows, self.need = rows, need
        self.jobs = {leaf: list(waiting) for leaf, waiting in jobs.items()}

    def best_job(self, queue: int) -> Job | None:
        if self.jobs.get(queue):
            return min(self.jobs[queue])
        child = self.first([row.queue for row in self.rows if row.parent == queue])
        return None if child is None else self.best_job(child)

    def first(self, queues: list[int]) -> int | None:
        live = [q for q in queues if self.best_job(q) is not None]
        live.sort(key=functools.cmp_to_key(self.order))
        return live[0] if live else None

    def order(self, left: int, right: int) -> int:
        best = [self.best_job(q) for q in (left, right)]
        needs = [NOTHING if job is None else self.need[job[1]] for job in best]
        return compare(self.rows[left], self.rows[right], needs[0], needs[1], TOTAL)

    def pop(self) -> int:
        queue = self.first([row.queue for row in self.rows if row.parent < 0])
        while queue is not None and not self.jobs.get(queue):
            queue = self.first([row.queue for row in self.rows if row.parent == queue])
        if queue is None:
            return -1
        job = min(self.jobs[queue])
        self.jobs[queue].remove(job)
        return job[1]

    def push(self, queue: int, job: Job) -> None:
        self.jobs[queue].append(job)


@settings(deadline=None, max_examples=200)
@given(worlds(), st.integers(0, 2**32 - 1))
def test_step_by_step_equals_sorted_anew(
    world: tuple[list[QueueRow], dict[int, list[Job]], dict[int, Amounts]], seed: int
) -> None:
    rows, jobs, need = world
    leaf_of = {gang: leaf for leaf, waiting in jobs.items() for _, gang in waiting}
    key_of = {gang: key for waiting in jobs.values() for key, gang in waiting}
    slow = Resorted(rows, jobs, need)
    copies = {leaf: list(waiting) for leaf, waiting in jobs.items()}
    fast = JobIteration(rows, TOTAL, copies, need.__getitem__, standing)
    random = np.random.default_rng(seed)
    growth = dict.fromkeys(need, 2)
    while (gang := slow.pop()) >= 0:
        assert fast.pop() == gang
        if random.random() < 0.3:
            continue  # it found no place: the books stay as they are
        queue = leaf_of[gang]
        while queue >= 0:
            rows[queue].charge(need[gang], firm=False)
            queue = rows[queue].parent
        if growth[gang] and random.random() < 0.5:
            growth[gang] -= 1
            need[gang] = (1.0, 0.0, 1.0)
            key = (key_of[gang][0], 2, *key_of[gang][2:])
            slow.push(leaf_of[gang], (key, gang))
            fast.push(key, gang)
    assert fast.pop() == -1

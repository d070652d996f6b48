"""The order of recorded queues by the literal rules: the tree is sorted anew each time."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from kai_ray.scheduler.shares.books import queue_books
from kai_ray.scheduler.shares.fair_share import allocatable_share, fair_share
from tests.conformance import scenario
from tests.conformance.literal_gang import Job
from tests.conformance.verdict import Case

Vector = tuple[float, float, float]
ZERO: Vector = (0.0, 0.0, 0.0)


def plus(a: Vector, b: Vector, sign: int = 1) -> Vector:
    return (a[0] + sign * b[0], a[1] + sign * b[1], a[2] + sign * b[2])


def within(a: Vector, b: Vector) -> bool:
    """a <= b everywhere, -1 counting as infinite."""
    return all(y == -1 or (x != -1 and x <= y) for x, y in zip(a, b, strict=True))


def need(tasks: list[dict[str, Any]]) -> Vector:
    total = ZERO
    for task in tasks:
        total = plus(total, amount(task))
    return total


def amount(task: dict[str, Any]) -> Vector:
    r = task["request"]
    return (float(r["cpu_milli"]), float(r["memory_bytes"]), float(r["gpus"] or 0))


@dataclass
class Queue:
    name: str
    parent: str | None
    priority: int
    created: float
    quota: Vector
    limit: Vector
    share: Vector
    allocatable: Vector
    allocated: Vector = ZERO
    firm: Vector = ZERO


class QueueTree:
    """The queues of a case with their books."""

    def __init__(self, case: Case) -> None:
        world = scenario.build(case, scenario.start(case))
        arrays, books = world.snapshot.queues, queue_books(world.snapshot)
        share = fair_share(arrays, world.snapshot.total, books.request)
        allocatable = allocatable_share(arrays, share)
        recorded = {queue["name"]: queue for queue in case["cluster"]["queues"]}
        self.total: Vector = tuple(world.snapshot.total.tolist())
        self.queues = {
            name: Queue(
                name=name,
                parent=recorded[name]["parent"],
                priority=recorded[name]["priority"],
                created=recorded[name]["created_offset_seconds"],
                quota=tuple(arrays.quota[:, i].tolist()),
                limit=tuple(arrays.limit[:, i].tolist()),
                share=tuple(share[:, i].tolist()),
                allocatable=tuple(allocatable[:, i].tolist()),
            )
            for i, name in enumerate(world.queues)
        }

    def charge(self, job: Job, wanted: Vector, sign: int = 1) -> None:
        """Books an amount on the job's queue and its ancestors."""
        for queue in self.path(job):
            queue.allocated = plus(queue.allocated, wanted, sign)
            if not job.data["preemptible"]:
                queue.firm = plus(queue.firm, wanted, sign)

    def over(self, job: Job, wanted: Vector) -> bool:
        """Whether a limit, or the quota of what cannot be preempted, would be passed."""

        def passed(bound: Vector, used: Vector) -> bool:
            rows = zip(bound, used, wanted, strict=True)
            return any(w != 0 and b != -1 and u + w > b for b, u, w in rows)

        path = self.path(job)
        firm = not job.data["preemptible"]
        return any(passed(q.limit, q.allocated) for q in path) or (
            firm and any(passed(q.quota, q.firm) for q in path)
        )

    def is_leaf(self, name: str) -> bool:
        known = name in self.queues
        return known and not any(q.parent == name for q in self.queues.values())

    def path(self, job: Job) -> list[Queue]:
        """The job's queue and its ancestors."""
        found, queue = [], self.queues.get(job.data["queue"])
        while queue is not None:
            found.append(queue)
            queue = self.queues.get(queue.parent or "")
        return found

    def best(self, jobs: list[Job], above: str | None = None) -> Job:
        """The gang that goes first: down from the best top-level queue."""
        inside = {
            queue.name: [job for job in jobs if queue in self.path(job)]
            for queue in self.queues.values()
            if queue.parent == above
        }
        inside = {name: some for name, some in inside.items() if some}
        if not inside:
            return min(jobs, key=Job.order)

        def order(a: str, b: str) -> int:
            return self._order(a, b, inside[a], inside[b])

        name = min(inside, key=functools.cmp_to_key(order))
        return self.best(inside[name], name)

    def _order(self, left: str, right: str, a: list[Job], b: list[Job]) -> int:
        one, two = self.queues[left], self.queues[right]
        needs = [
            need(self.best(jobs, queue.name).attempt()) for queue, jobs in ((one, a), (two, b))
        ]
        for rule in (
            self._over,
            self._starved,
            self._priority,
            self._shareless,
            self._with,
            self._without,
        ):
            x, y = rule(one, needs[0]), rule(two, needs[1])
            if x != y:
                return -1 if x < y else 1
        if one.allocatable != two.allocatable:
            if within(one.allocatable, two.allocatable):
                return -1
            if within(two.allocatable, one.allocatable):
                return 1
        return -1 if (one.created, one.name) < (two.created, two.name) else 1

    def _over(self, q: Queue, _: Vector) -> bool:
        return all(f < a for f, a in zip(q.share, q.allocated, strict=True))

    def _starved(self, q: Queue, wanted: Vector) -> bool:
        return not within(plus(q.allocated, wanted), q.quota)

    def _priority(self, q: Queue, _: Vector) -> int:
        return -q.priority

    def _shareless(self, q: Queue, wanted: Vector) -> bool:
        after = plus(q.allocated, wanted)
        return any(s == 0 and x > 0 for s, x in zip(q.allocatable, after, strict=True))

    def _with(self, q: Queue, wanted: Vector) -> float:
        parts = [0.0]
        for x, s, t in zip(plus(q.allocated, wanted), q.allocatable, self.total, strict=True):
            s = t if s == -1 else s
            parts.append(x * 1000 if s == 0 else x / s)
        return max(parts)

    def _without(self, q: Queue, _: Vector) -> float:
        return self._with(q, ZERO)

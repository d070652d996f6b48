"""The rules of placement once more, as slowly and literally as they are written down.

A second opinion for the core: every choice sorts everything anew, one pod at a time, on plain
dictionaries of recorded form, without arrays, classes, heaps or caches. Only fair shares come from
the core, because recorded vectors pin them exactly. Whole GPUs, no rules about other pods.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

from kai_ray.scheduler.shares.books import queue_books
from kai_ray.scheduler.shares.fair_share import allocatable_share, fair_share
from tests.conformance import scenario
from tests.conformance.scenario import TaskNow
from tests.conformance.verdict import Case

Vector = tuple[float, float, float]
ZERO: Vector = (0.0, 0.0, 0.0)
ACTIVE = ("Allocated", "Binding", "Bound", "Running", "Pipelined")
HOLDING = ("Allocated", "Binding", "Bound", "Running", "StuckInReleasing", "Releasing")


def plus(a: Vector, b: Vector, sign: int = 1) -> Vector:
    return (a[0] + sign * b[0], a[1] + sign * b[1], a[2] + sign * b[2])


def within(a: Vector, b: Vector) -> bool:
    """a <= b everywhere, -1 counting as infinite."""
    return all(y == -1 or (x != -1 and x <= y) for x, y in zip(a, b, strict=True))


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


@dataclass
class Node:
    name: str
    idle: list[float]
    releasing: list[float]
    whole: list[float]
    type: str


@dataclass
class Job:
    data: dict[str, Any]
    tasks: list[dict[str, Any]]
    status: dict[str, str]
    leaf_minimum: dict[str, int] = field(default_factory=dict)

    def held(self, leaf: str) -> int:
        return sum(self.status[t["name"]] in ACTIVE for t in self.of(leaf))

    def of(self, leaf: str) -> list[dict[str, Any]]:
        return [t for t in self.tasks if t["subgroup"] == leaf]

    def waiting(self, leaf: str) -> list[dict[str, Any]]:
        rows = [t for t in self.of(leaf) if self.status[t["name"]] == "Pending"]
        rows.sort(
            key=lambda t: (t["order_priority"] is None, -(t["order_priority"] or 0), t["name"])
        )
        return rows

    # A subgroup is a leaf (its recorded pod set) or a set (its recorded group).

    def minimum(self, group: dict[str, Any]) -> int:
        if "min_available" in group:
            return group["min_available"]
        wanted = group.get("min_subgroup")
        return len(children(group)) if wanted is None else wanted

    def count(self, group: dict[str, Any]) -> int:
        if "min_available" in group:
            return self.held(group["name"])
        return sum(self.met(child) for child in children(group))

    def met(self, group: dict[str, Any]) -> bool:
        return self.count(group) >= self.minimum(group)

    def could(self, group: dict[str, Any]) -> bool:
        if "min_available" in group:
            have = self.held(group["name"]) + len(self.waiting(group["name"]))
            return have >= group["min_available"]
        return sum(self.could(child) for child in children(group)) >= self.minimum(group)

    def ordered(self, group: dict[str, Any]) -> list[dict[str, Any]]:
        def key(child: dict[str, Any]) -> tuple[int, float, str]:
            count, minimum = self.count(child), self.minimum(child)
            if count < minimum:
                return (0, 0.0, child["name"])
            if minimum == 0:
                return (2, count, child["name"])
            return (1, count / minimum, child["name"])

        return sorted(children(group), key=key)

    def attempt(self, group: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """The pods of the next attempt."""
        group = self.data["subgroups"] if group is None else group
        if not self.met(group):
            able = [child for child in self.ordered(group) if self.could(child)]
            chosen: list[dict[str, Any]] = []
            for child in able[: self.minimum(group)]:
                if self.met(child):
                    continue
                if "min_available" in child:
                    missing = child["min_available"] - self.held(child["name"])
                    chosen += self.waiting(child["name"])[:missing]
                else:
                    chosen += self.attempt(child)
            return chosen
        for child in self.ordered(group):
            if "min_available" in child:
                missing = max(1, child["min_available"] - self.held(child["name"]))
                chosen = self.waiting(child["name"])[:missing]
            else:
                chosen = self.attempt(child)
            if chosen:
                return chosen
        return []

    def elastic(self) -> int:
        spare = [self.held(leaf) - least for leaf, least in self.leaf_minimum.items()]
        return 0 if min(spare) < 0 else 2 if max(spare) > 0 else 1

    def order(self) -> tuple[Any, ...]:
        age = self.data["created_age_seconds"]
        return (-self.data["priority"], self.elastic(), -age, self.data["name"])


def children(group: dict[str, Any]) -> list[dict[str, Any]]:
    return [*group["pod_sets"], *group["groups"]]


def leaves(group: dict[str, Any]) -> dict[str, int]:
    found = {leaf["name"]: leaf["min_available"] for leaf in group["pod_sets"]}
    for child in group["groups"]:
        found |= leaves(child)
    return found


def need(tasks: list[dict[str, Any]]) -> Vector:
    total = ZERO
    for task in tasks:
        total = plus(total, amount(task))
    return total


def amount(task: dict[str, Any]) -> Vector:
    r = task["request"]
    return (float(r["cpu_milli"]), float(r["memory_bytes"]), float(r["gpus"] or 0))


class Sequential:
    """One session of the action allocate on a recorded case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.total: Vector = ZERO
        self.queues = self._queues()
        self.nodes = [self._node(node) for node in case["cluster"]["nodes"]]
        self.jobs = [self._job(job) for job in case["cluster"]["jobs"]]
        self.at = {t["name"]: t["node"] for job in self.jobs for t in job.data["tasks"]}
        self.spread = (case["config"]["node_placement"] or {}).get("gpu") == "spread"
        for job in self.jobs:
            for task in job.data["tasks"]:
                self._put(job, task)

    def _queues(self) -> dict[str, Queue]:
        world = scenario.build(self.case, scenario.start(self.case))
        arrays, books = world.snapshot.queues, queue_books(world.snapshot)
        share = fair_share(arrays, world.snapshot.total, books.request)
        self.total = tuple(world.snapshot.total.tolist())
        allocatable = allocatable_share(arrays, share)
        recorded = {queue["name"]: queue for queue in self.case["cluster"]["queues"]}
        return {
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

    def _node(self, node: dict[str, Any]) -> Node:
        a = node["allocatable"]
        whole = [float(a[k]) for k in ("cpu_milli", "memory_bytes", "gpus", "pods")]
        return Node(
            node["name"], list(whole), [0.0] * 4, whole, node["labels"]["kai.scheduler/type"]
        )

    def _job(self, job: dict[str, Any]) -> Job:
        known = leaves(job["subgroups"])
        tasks = [task for task in job["tasks"] if task["subgroup"] in known]
        status = {task["name"]: task["status"] for task in job["tasks"]}
        return Job(job, tasks, status, known)

    def _put(self, job: Job, task: dict[str, Any]) -> None:
        """Books a recorded task that is somewhere."""
        status, node = task["status"], self._find(task["node"])
        if node is not None and status in HOLDING:
            for r, x in enumerate((*amount(task), 1.0)):
                if node.whole[r] > 0:
                    node.idle[r] -= x
                    node.releasing[r] += x if status == "Releasing" else 0.0
        if status in ACTIVE and status != "Pipelined" and task in job.tasks:
            self._charge(job, task)

    def _find(self, name: str | None) -> Node | None:
        return next((node for node in self.nodes if node.name == name), None)

    def _charge(self, job: Job, task: dict[str, Any], sign: int = 1) -> None:
        queue = self.queues.get(job.data["queue"])
        while queue is not None:
            queue.allocated = plus(queue.allocated, amount(task), sign)
            if not job.data["preemptible"]:
                queue.firm = plus(queue.firm, amount(task), sign)
            queue = self.queues.get(queue.parent or "")

    # ---- the order

    def run(self) -> dict[str, TaskNow]:
        """The state of every task after the action."""
        open_ = [job for job in self.jobs if self._is_tried(job)]
        while open_:
            job = self._best(open_)
            open_.remove(job)
            if self._try(job) and any(job.waiting(leaf) for leaf in job.leaf_minimum):
                open_.append(job)
        return {
            task["name"]: TaskNow(job.status[task["name"]], self.at[task["name"]])
            for job in self.jobs
            for task in job.data["tasks"]
        }

    def _is_tried(self, job: Job) -> bool:
        queue = self.queues.get(job.data["queue"])
        if queue is None or any(q.parent == queue.name for q in self.queues.values()):
            return False
        waits = any(job.waiting(leaf) for leaf in job.leaf_minimum)
        return waits and job.could(job.data["subgroups"])

    def _best(self, jobs: list[Job]) -> Job:
        """Down from the best top-level queue to its best gang."""
        above: str | None = None
        while True:
            best = {}
            for queue in self.queues.values():
                inside = [job for job in jobs if queue.name in self._path(job)]
                if queue.parent == above and inside:
                    best[queue.name] = inside
            if not best:
                return min((j for j in jobs if j.data["queue"] == above), key=Job.order)
            above = self._first(best)

    def _path(self, job: Job) -> list[str]:
        names, queue = [], self.queues.get(job.data["queue"])
        while queue is not None:
            names.append(queue.name)
            queue = self.queues.get(queue.parent or "")
        return names

    def _order(self, left: str, right: str, a: list[Job], b: list[Job]) -> int:
        l, r = self.queues[left], self.queues[right]  # noqa: E741
        needs = [need(self._head(queue, jobs).attempt()) for queue, jobs in ((l, a), (r, b))]
        for rule in (
            self._rule_1,
            self._rule_2,
            self._rule_3,
            self._rule_4,
            self._rule_5,
            self._rule_6,
        ):
            x, y = rule(l, needs[0]), rule(r, needs[1])
            if x != y:
                return -1 if x < y else 1
        if l.allocatable != r.allocatable:
            if within(l.allocatable, r.allocatable):
                return -1
            if within(r.allocatable, l.allocatable):
                return 1
        return -1 if (l.created, l.name) < (r.created, r.name) else 1

    def _head(self, queue: Queue, jobs: list[Job]) -> Job:
        """The gang that stands for a queue: that of its best child, recursively."""
        inner = {
            q.name: [job for job in jobs if q.name in self._path(job)]
            for q in self.queues.values()
            if q.parent == queue.name
        }
        inner = {name: inside for name, inside in inner.items() if inside}
        if not inner:
            return min(jobs, key=Job.order)
        best = self._first(inner)
        return self._head(self.queues[best], inner[best])

    def _first(self, jobs: dict[str, list[Job]]) -> str:
        """The queue that goes first, of those given with the gangs inside."""
        key = functools.cmp_to_key(lambda a, b: self._order(a, b, jobs[a], jobs[b]))
        return min(jobs, key=key)

    def _rule_1(self, q: Queue, _: Vector) -> bool:
        return all(f < a for f, a in zip(q.share, q.allocated, strict=True))

    def _rule_2(self, q: Queue, wanted: Vector) -> bool:
        return not within(plus(q.allocated, wanted), q.quota)

    def _rule_3(self, q: Queue, _: Vector) -> int:
        return -q.priority

    def _rule_4(self, q: Queue, wanted: Vector) -> bool:
        after = plus(q.allocated, wanted)
        return any(s == 0 and x > 0 for s, x in zip(q.allocatable, after, strict=True))

    def _rule_5(self, q: Queue, wanted: Vector) -> float:
        parts = [0.0]
        for x, s, t in zip(plus(q.allocated, wanted), q.allocatable, self.total, strict=True):
            s = t if s == -1 else s
            parts.append(x * 1000 if s == 0 else x / s)
        return max(parts)

    def _rule_6(self, q: Queue, _: Vector) -> float:
        return self._rule_5(q, ZERO)

    # ---- one attempt

    def _try(self, job: Job) -> bool:
        tasks = job.attempt()
        if not tasks or self._over(job, need(tasks)):
            return False
        done: list[tuple[dict[str, Any], Node, bool]] = []
        for task in tasks:
            node = self._choose(task)
            if node is None:
                for other, where, now in reversed(done):
                    self._book(job, other, where, now, -1)
                return False
            now = self._fits(task, node, node.idle)
            self._book(job, task, node, now, 1)
            done.append((task, node, now))
        self._settle(job, done)
        return True

    def _over(self, job: Job, wanted: Vector) -> bool:
        path = [self.queues[name] for name in self._path(job)]
        over = any(
            w != 0 and q.limit[r] != -1 and q.allocated[r] + w > q.limit[r]
            for q in path
            for r, w in enumerate(wanted)
        )
        firm = not job.data["preemptible"] and any(
            w != 0 and q.quota[r] != -1 and q.firm[r] + w > q.quota[r]
            for q in path
            for r, w in enumerate(wanted)
        )
        return over or firm

    def _fits(self, task: dict[str, Any], node: Node, free: list[float]) -> bool:
        wanted = (*amount(task), 1.0)
        return all(x <= f for x, f in zip(wanted, free, strict=True))

    def _choose(self, task: dict[str, Any]) -> Node | None:
        scored = sorted((-self._score(task, node), node.name, node) for node in self.nodes)
        for _, _, node in scored:
            both = [a + b for a, b in zip(node.idle, node.releasing, strict=True)]
            wanted = task["node_affinity_in"]
            if self._fits(task, node, both) and (not wanted or node.type in wanted):
                return node
        return None

    def _score(self, task: dict[str, Any], node: Node) -> float:
        gpu = (task["request"]["gpus"] or 0) > 0
        r = 2 if gpu else 0
        free = {n.name: n.idle[r] + n.releasing[r] for n in self.nodes if n.whole[r] > 0}
        score = 1000.0 if self._fits(task, node, node.idle) else 0.0
        score += 10.0 if not gpu and node.whole[2] == 0 else 0.0
        if node.name not in free:
            return score
        if self.spread:
            return score + free[node.name] / node.whole[r]
        low, high = min(free.values()), max(free.values())
        if high == low:
            return score + 9.0
        return score + 9.0 * (1 - (free[node.name] - low) / (high - low))

    def _book(self, job: Job, task: dict[str, Any], node: Node, now: bool, sign: int) -> None:
        side = node.idle if now else node.releasing
        for r, x in enumerate((*amount(task), 1.0)):
            side[r] -= sign * x
        self._charge(job, task, sign)
        job.status[task["name"]] = "Pending" if sign < 0 else "Binding" if now else "Pipelined"
        self.at[task["name"]] = node.name if sign > 0 else None

    def _settle(self, job: Job, done: list[tuple[dict[str, Any], Node, bool]]) -> None:
        """A gang whose minimum counts on releasing room waits for it as a whole."""
        for leaf, least in job.leaf_minimum.items():
            states = [job.status[t["name"]] for t in job.of(leaf)]
            firm = sum(s in ACTIVE and s != "Pipelined" for s in states)
            if "Pipelined" in states and firm < least:
                for task, node, now in done:
                    if now:
                        self._book(job, task, node, True, -1)
                        self._book(job, task, node, False, 1)
                return

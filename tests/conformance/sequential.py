"""The rules of placement once more, as slowly and literally as they are written down.

A second opinion for the core: every choice sorts everything anew, one pod at a time, on plain
dictionaries of recorded form, without arrays, classes, heaps or caches. Only fair shares come from
the core, because recorded vectors pin them exactly. Whole GPUs only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.conformance.literal_gang import ACTIVE, HOLDING, Job, leaves
from tests.conformance.literal_queues import QueueTree, amount, need
from tests.conformance.scenario import TaskNow
from tests.conformance.verdict import Case


@dataclass
class Node:
    name: str
    idle: list[float]
    releasing: list[float]
    whole: list[float]
    labels: dict[str, str]


def _selects(term: dict[str, Any], task: dict[str, Any]) -> bool:
    return all(task["labels"].get(k) == v for k, v in term["match_labels"].items())


def _together(key: str, a: Node, b: Node) -> bool:
    return key in a.labels and a.labels[key] == b.labels.get(key)


class Sequential:
    """One session of the action allocate on a recorded case."""

    def __init__(self, case: Case) -> None:
        self.queues = QueueTree(case)
        self.nodes = [self._node(node) for node in case["cluster"]["nodes"]]
        self.jobs = [self._job(job) for job in case["cluster"]["jobs"]]
        self.at = {t["name"]: t["node"] for job in self.jobs for t in job.data["tasks"]}
        self.spread = (case["config"]["node_placement"] or {}).get("gpu") == "spread"
        for job in self.jobs:
            for task in job.data["tasks"]:
                self._put(job, task)

    def _node(self, node: dict[str, Any]) -> Node:
        a = node["allocatable"]
        whole = [float(a[k]) for k in ("cpu_milli", "memory_bytes", "gpus", "pods")]
        return Node(node["name"], list(whole), [0.0] * 4, whole, node["labels"])

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
            self.queues.charge(job, amount(task))

    def _find(self, name: str | None) -> Node | None:
        return next((node for node in self.nodes if node.name == name), None)

    def run(self) -> dict[str, TaskNow]:
        """The state of every task after the action."""
        tried = [job for job in self.jobs if self._is_tried(job)]
        self._repair([job for job in tried if job.torn()])
        while tried:
            job = self.queues.best(tried)
            tried.remove(job)
            if self._try(job) and any(job.waiting(leaf) for leaf in job.leaf_minimum):
                tried.append(job)
        return {
            task["name"]: TaskNow(job.status[task["name"]], self.at[task["name"]])
            for job in self.jobs
            for task in job.data["tasks"]
        }

    def _repair(self, torn: list[Job]) -> None:
        """Our rule, not KAI's: who holds a part of its minimum gets the rest before all others."""
        for job in sorted(torn, key=Job.order):
            while job.elastic() == 0 and self._try(job):
                pass

    def _is_tried(self, job: Job) -> bool:
        waits = any(job.waiting(leaf) for leaf in job.leaf_minimum)
        usable = self.queues.is_leaf(job.data["queue"])
        return waits and usable and job.could(job.data["subgroups"])

    def _try(self, job: Job) -> bool:
        tasks = job.attempt()
        if not tasks or self.queues.over(job, need(tasks)):
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

    def _fits(self, task: dict[str, Any], node: Node, free: list[float]) -> bool:
        wanted = (*amount(task), 1.0)
        return all(x <= f for x, f in zip(wanted, free, strict=True))

    def _choose(self, task: dict[str, Any]) -> Node | None:
        scored = sorted((-self._score(task, node), node.name, node) for node in self.nodes)
        for _, _, node in scored:
            both = [a + b for a, b in zip(node.idle, node.releasing, strict=True)]
            wanted = task["node_affinity_in"]
            suits = not wanted or node.labels["kai.scheduler/type"] in wanted
            if suits and self._fits(task, node, both) and self._company(task, node):
                return node
        return None

    def _company(self, task: dict[str, Any], node: Node) -> bool:
        """Whether the pods around suit the task, and it them."""
        there = [(other, self._find(self.at[other["name"]])) for other in self._present()]
        near, apart = task["pod_affinity"], task["pod_anti_affinity"]
        if near is not None:
            liked = [at for other, at in there if _selects(near, other) and at is not None]
            key = near["topology_key"]
            if key not in node.labels:
                return False
            alone = not any(key in at.labels for at in liked) and _selects(near, task)
            if not alone and not any(_together(key, node, at) for at in liked):
                return False
        for other, at in there:
            if at is None:
                continue
            theirs = other["pod_anti_affinity"]
            for term, seen in ((apart, other), (theirs, task)):
                if term is None or not _selects(term, seen):
                    continue
                if _together(term["topology_key"], node, at):
                    return False
        return True

    def _present(self) -> list[dict[str, Any]]:
        """Tasks that are on a node or promised one."""
        return [
            task
            for job in self.jobs
            for task in job.data["tasks"]
            if job.status[task["name"]] in (*HOLDING, "Pipelined")
        ]

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
        self.queues.charge(job, amount(task), sign)
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

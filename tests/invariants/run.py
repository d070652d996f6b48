"""A cluster over many cycles: the core decides, a small world obeys, checkers look on.

A bound pod runs from the next cycle on. An evicted pod leaves after some cycles and is made again
as a waiting one. A nomination whose gang others left for is held, as the control loop would do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from kai_ray.scheduler import DEFAULT, Plan, decide
from kai_ray.scheduler.snapshot import QUEUE_RESOURCES, Snapshot, TaskState
from tests.core.world import Job, Pod, Queue, World
from tests.invariants.clusters import Setup, Work, pod_of

if TYPE_CHECKING:
    from tests.invariants.checks import Check

PERIOD_S = 10.0
HOLD_S = 100.0
#: Cycles without any event at the end of a run.
QUIET = 24


@dataclass(eq=False)
class Member:
    """One pod of a job, over all its lives."""

    state: TaskState = TaskState.PENDING
    node: str = ""
    nominated: str = ""
    since: int = 0  # cycle of its last change
    age: int = 0  # cycles it ran


@dataclass
class Party:
    """A job and its pods."""

    work: Work
    members: list[Member]
    hold_until_s: float = float("nan")
    moved: bool = False  # the hold is for pods of its own that had to move
    last_start_s: float = float("nan")
    damaged: bool = False  # lost pods to an event, not to us


@dataclass
class Cluster:
    """The world of one run."""

    setup: Setup
    cycle: int = 0
    parties: list[Party] = field(default_factory=list)
    last_event: int = -1
    evictions: list[tuple[int, str, str]] = field(default_factory=list)  # cycle, victim, for whom

    def __post_init__(self) -> None:
        self.nodes = list(self.setup.nodes)
        self.queues = list(self.setup.queues)

    @property
    def now_s(self) -> float:
        return 1000.0 + self.cycle * PERIOD_S

    def party(self, name: str) -> Party:
        return next(p for p in self.parties if p.work.name == name)

    # ---- what happens

    def befall(self) -> None:
        """Arrivals, ends and events of this cycle."""
        for work in self.setup.works:
            if work.arrives == self.cycle:
                self.parties.append(Party(work, [Member() for _ in range(work.pods)]))
                self.last_event = self.cycle
        self._leave()
        for event in self.setup.events.get(self.cycle, []):
            kind, number = event.split()
            self._event(kind, int(number))

    def _leave(self) -> None:
        for party in self.parties:
            for member in party.members:
                waited = self.cycle - member.since
                if member.state is TaskState.RELEASING and waited >= self.setup.leaving:
                    member.state, member.node, member.since = TaskState.PENDING, "", self.cycle
                elif member.state is TaskState.RUNNING:
                    member.age += 1
        done = [p for p in self.parties if p.work.lasts and _ended(p)]
        for party in done:
            self.parties.remove(party)
            self.last_event = self.cycle

    def _event(self, kind: str, number: int) -> None:
        self.last_event = self.cycle
        if kind in ("cordon", "uncordon"):
            at = number % len(self.nodes)
            self.nodes[at] = replace(self.nodes[at], cordoned=kind == "cordon")
        elif kind == "quota":
            at = number % len(self.queues)
            quota = float(number % 7)
            self.queues[at] = replace(self.queues[at], gpu_quota=quota)
        elif self.parties:
            party = self.parties[number % len(self.parties)]
            member = party.members[number % len(party.members)]
            if member.state is TaskState.RUNNING:
                member.state, member.node, member.since = TaskState.PENDING, "", self.cycle
                party.damaged = True

    # ---- what the core sees

    def world(self) -> World:
        jobs = [self._job(party) for party in self.parties]
        return World(self.nodes, jobs, self.queues)

    def _job(self, party: Party) -> Job:
        work, shape = party.work, pod_of(party.work)
        pods = [
            replace(shape, state=m.state, node=m.node, nominated=m.nominated) for m in party.members
        ]
        return Job(
            work.name,
            pods,
            work.minimum,
            work.queue,
            work.priority,
            work.preemptible,
            created=float(work.arrives * 100 + int(work.name[1:])),
        )

    def snapshot(self) -> Snapshot:
        """The arrays, with the columns that only evictions read."""
        snapshot = self.world().snapshot()
        parties, queues = self.parties, len(self.queues)
        starts = np.array([p.last_start_s for p in parties])
        gangs = replace(
            snapshot.gangs,
            last_start_s=starts,
            hold_until_s=np.array([p.hold_until_s for p in parties]),
            moved=np.array([p.moved for p in parties], dtype=bool),
            core_safe=np.array([p.work.core_safe for p in parties], dtype=bool),
            checkpoint_s=starts + 7.0 if self.setup.checkpoints else None,
        )
        least = np.full(queues, self.setup.min_runtime_s)
        rows = replace(
            snapshot.queues, reclaim_min_runtime_s=least, preempt_min_runtime_s=least.copy()
        )
        budget = [i if p.work.budget >= 0 else -1 for i, p in enumerate(parties) for _ in p.members]
        return replace(
            snapshot,
            now_s=self.now_s,
            gangs=gangs,
            queues=rows,
            tasks=replace(snapshot.tasks, budget=np.array(budget, dtype=np.int32)),
            disruptions=tuple(self._budget(p) for p in parties),
            kept=self._kept(snapshot),
            coming=self._coming(snapshot),
        )

    def _kept(self, snapshot: Snapshot) -> np.ndarray:
        """[R, N] room held for pods that have been moved and are not made again yet."""
        kept = np.zeros_like(snapshot.nodes.allocatable)
        place = {node.name: i for i, node in enumerate(self.nodes)}
        task = 0
        for party in self.parties:
            for member in party.members:
                if _moves(member):
                    request = snapshot.classes.request[:, snapshot.tasks.klass[task]]
                    kept[:, place[member.nominated]] += request
                task += 1
        return kept

    def _coming(self, snapshot: Snapshot) -> np.ndarray:
        """[3, G] what their queues are charged for them meanwhile."""
        coming = np.zeros((QUEUE_RESOURCES, len(self.parties)))
        task = 0
        for at, party in enumerate(self.parties):
            for member in party.members:
                if _moves(member):
                    coming[:, at] += snapshot.classes.queue_request[:, snapshot.tasks.klass[task]]
                task += 1
        return coming

    def _budget(self, party: Party) -> int:
        missing = sum(m.state is not TaskState.RUNNING for m in party.members)
        return max(party.work.budget - missing, 0)

    # ---- what it decides

    def obey(self, plan: Plan) -> None:
        """Does what the plan says."""
        flat = [(party, member) for party in self.parties for member in party.members]
        for _, member in flat:
            if member.state is not TaskState.RELEASING:
                member.nominated = ""
        for task, gang in zip(plan.evict_task.tolist(), plan.evict_for.tolist(), strict=True):
            party, member = flat[task]
            member.state, member.since = TaskState.RELEASING, self.cycle
            gainer = self.parties[gang] if gang >= 0 else None
            name = f"{party.work.name}-{party.members.index(member)}"
            self.evictions.append((self.cycle, name, gainer.work.name if gainer else ""))
            if gainer is not None:
                gainer.hold_until_s, gainer.moved = self.now_s + HOLD_S, False
        for task, node in zip(plan.bind_task.tolist(), plan.bind_node.tolist(), strict=True):
            party, member = flat[task]
            if not any(m.state is TaskState.RUNNING for m in party.members):
                party.last_start_s = self.now_s
            member.state, member.node = TaskState.RUNNING, self.nodes[node].name
            member.since, member.age = self.cycle, 0
            party.damaged = False
        rows = zip(plan.nominate_task.tolist(), plan.nominate_node.tolist(), strict=True)
        for task, node in rows:
            party, member = flat[task]
            member.nominated = self.nodes[node].name
            if member.state is TaskState.RELEASING:  # moved: what is made in its place goes there
                party.moved |= not party.hold_until_s > self.now_s
                party.hold_until_s = self.now_s + HOLD_S
        for party in self.parties:  # a hold ends with the last pod that it is for
            if not any(m.nominated for m in party.members):
                party.hold_until_s, party.moved = float("nan"), False


def _moves(member: Member) -> bool:
    """Whether it leaves its node to be made again on another."""
    return member.state is TaskState.RELEASING and bool(member.nominated)


def _named(member: Member) -> str:
    return member.nominated if member.state is TaskState.PENDING else ""


def _ended(party: Party) -> bool:
    work = party.work
    running = [m for m in party.members if m.state is TaskState.RUNNING]
    return len(running) >= work.minimum and all(m.age >= work.lasts for m in running)


def run(setup: Setup, checks: list[Check]) -> list[str]:
    """What went wrong in a run; nothing, if all is well."""
    cluster, found = Cluster(setup), list[str]()
    for cycle in range(setup.busy + QUIET):
        cluster.cycle = cycle
        cluster.befall()
        snapshot = cluster.snapshot()
        plan = decide(snapshot, DEFAULT)
        for check in checks:
            found += [f"cycle {cycle}: {line}" for line in check.before(cluster, snapshot, plan)]
        cluster.obey(plan)
        for check in checks:
            found += [f"cycle {cycle}: {line}" for line in check.after(cluster)]
    for check in checks:
        found += check.end(cluster)
    return found


def queue_named(cluster: Cluster, name: str) -> Queue:
    return next(queue for queue in cluster.queues if queue.name == name)


__all__ = ["Cluster", "Member", "Party", "Pod", "run"]

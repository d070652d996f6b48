"""What must hold whatever happens: one checker per invariant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from kai_ray.scheduler import DEFAULT, Plan, decide
from kai_ray.scheduler.snapshot import Snapshot, TaskState
from tests.invariants.run import QUIET, Cluster

#: Cycles in which a beneficiary must start once its victims have left.
_SOON = 3


class Check:
    """Looks at every cycle; each line is a violation."""

    def before(self, cluster: Cluster, snapshot: Snapshot, plan: Plan) -> Iterator[str]:
        """A plan, before it is obeyed."""
        yield from ()

    def after(self, cluster: Cluster) -> Iterator[str]:
        """The world, after a plan was obeyed."""
        yield from ()

    def end(self, cluster: Cluster) -> Iterator[str]:
        """A whole run."""
        yield from ()


class NoOvercommit(Check):
    """1: no GPU is given twice."""

    def after(self, cluster: Cluster) -> Iterator[str]:
        used = Counter[str]()
        for party in cluster.parties:
            for member in party.members:
                if member.state in (TaskState.RUNNING, TaskState.RELEASING):
                    used[member.node] += party.work.gpus
        for node in cluster.nodes:
            if used[node.name] > node.gpus:
                yield f"node {node.name} has {node.gpus} GPUs, {used[node.name]} are in use"


class GangsWhole(Check):
    """3: a gang never runs below its minimum, unless something befell it.

    A pod that is moved is away for as long as it takes to leave: its place is kept, and in the
    cycle in which it is made again it runs there. So what runs and what is on its way to a kept
    place make the minimum at every moment.
    """

    def after(self, cluster: Cluster) -> Iterator[str]:
        for party in cluster.parties:
            states = [(m.state, m.nominated) for m in party.members]
            runs = sum(state is TaskState.RUNNING for state, _ in states)
            moves = sum(state is TaskState.RELEASING and bool(node) for state, node in states)
            if runs > 0 and runs + moves < party.work.minimum and not party.damaged:
                yield f"{party.work.name} runs {runs} pods, its minimum is {party.work.minimum}"


class NotInVain(Check):
    """8: who others were evicted for starts soon after they left, if nothing befell the cluster."""

    def end(self, cluster: Cluster) -> Iterator[str]:
        for cycle, _, gainer in sorted({(c, "", g) for c, _, g in cluster.evictions if g}):
            due = cycle + cluster.setup.leaving + _SOON
            if due >= cluster.cycle or cluster.last_event >= cycle:
                continue
            if not any(at >= cycle for at in self._starts.get(gainer, [])):
                yield f"evicted in cycle {cycle} for {gainer}, which did not start by {due}"

    def __init__(self) -> None:
        self._starts: dict[str, list[int]] = {}

    def before(self, cluster: Cluster, snapshot: Snapshot, plan: Plan) -> Iterator[str]:
        gangs = snapshot.tasks.gang[plan.bind_task]
        for gang in set(gangs.tolist()):
            self._starts.setdefault(cluster.parties[gang].work.name, []).append(cluster.cycle)
        yield from ()


class NoEvictionCycle(Check):
    """9: with demand standing still evictions stop, and nobody is evicted again and again.

    The strict wording is one eviction of a workload per change of demand. It cannot hold to the
    letter, because an eviction is a change of demand: its victim asks again, and as whole gangs go,
    it may leave more room than its beneficiary takes. A pod evicted earlier starts there, as it
    should: nobody else can use the room now. When the later victim's claim is served in turn, that
    pod, being the least in the order, is what goes. Evictions come from a total order, so such a
    chain is as long as there are other victims, and it ends. What can be promised, and is checked
    here: between two evictions of one pod somebody of another gang was evicted. A pod that is
    evicted again although nobody else had to go in between was evicted in vain, or in turn.
    """

    def end(self, cluster: Cluster) -> Iterator[str]:
        quiet = max(cluster.last_event, 0)
        # A gang that ends late, or a node that is back late, is answered late.
        calm = max(cluster.cycle - QUIET // 3, quiet + QUIET // 3)
        late = [e for e in cluster.evictions if e[0] > calm]
        if late:
            yield f"evictions do not stop: {late[:4]}"
        cycles: dict[str, list[int]] = {}
        for cycle, victim, _ in cluster.evictions:
            if cycle > quiet:
                cycles.setdefault(victim, []).append(cycle)
        for victim, when in cycles.items():
            for first, again in pairwise(when):
                others = (
                    _gang(other) != _gang(victim) and first < cycle < again
                    for cycle, other, _ in cluster.evictions
                )
                if not any(others):
                    yield f"{victim} was evicted in cycles {first} and {again}, nobody else between"


def _gang(pod: str) -> str:
    return pod.rpartition("-")[0]


class Settles(Check):
    """36: with demand standing still the cluster comes to rest."""

    def __init__(self) -> None:
        self._last_bind = -1

    def before(self, cluster: Cluster, snapshot: Snapshot, plan: Plan) -> Iterator[str]:
        if len(plan.bind_task):
            self._last_bind = cluster.cycle
        yield from ()

    def end(self, cluster: Cluster) -> Iterator[str]:
        if self._last_bind > cluster.cycle - QUIET // 3 and not _ending(cluster):
            yield f"pods are still being bound in cycle {self._last_bind}"


def _ending(cluster: Cluster) -> bool:
    """Whether jobs that end by themselves keep the cluster in motion."""
    return any(work.lasts for work in cluster.setup.works)


class Deterministic(Check):
    """16: the same snapshot gives the same plan."""

    def before(self, cluster: Cluster, snapshot: Snapshot, plan: Plan) -> Iterator[str]:
        if cluster.cycle % 5:
            return
        again = decide(snapshot, DEFAULT)
        for name in ("bind_task", "bind_node", "nominate_task", "evict_task", "evict_for"):
            if not np.array_equal(getattr(plan, name), getattr(again, name)):
                yield f"{name} differs between two runs on one snapshot"


class Consistent(Check):
    """A plan names each pod once, evicts what runs, and never what is not preemptible."""

    def before(self, cluster: Cluster, snapshot: Snapshot, plan: Plan) -> Iterator[str]:
        state, gang = snapshot.tasks.state, snapshot.tasks.gang
        placed = Counter([*plan.bind_task.tolist(), *plan.nominate_task.tolist()])
        yield from (f"pod {task} is placed twice" for task, n in placed.items() if n > 1)
        gone = Counter(plan.evict_task.tolist())
        yield from (f"pod {task} is evicted twice" for task, n in gone.items() if n > 1)
        for task in gone:
            if state[task] != TaskState.RUNNING:
                yield f"pod {task} is evicted but does not run"
            for_gang = plan.evict_for[plan.evict_task.tolist().index(task)]
            if not snapshot.gangs.preemptible[gang[task]] and for_gang >= 0:
                yield f"pod {task} is evicted but not preemptible"


def all_checks() -> list[Check]:
    """A fresh set for one run."""
    return [
        NoOvercommit(),
        GangsWhole(),
        NotInVain(),
        NoEvictionCycle(),
        Settles(),
        Deterministic(),
        Consistent(),
    ]

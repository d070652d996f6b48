"""What must be counted as it happens, since no later look at the state would find it.

Per cycle only columns are added up; by name only what is rare: gangs that get room, pods that are
evicted. Lives of jobs come from the one stream that history and console read, too.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping

import numpy as np

from kai_ray.api import labels as L
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Key
from kai_ray.cluster.runtime import Runtime
from kai_ray.controllers.cycle import Cycle
from kai_ray.metrics.histogram import Histogram, doubling
from kai_ray.metrics.job_use import JobUse
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import TaskState
from kai_ray.sight.events import JobEvent
from kai_ray.sight.figures import CycleFigures
from kai_ray.sight.sight import Sight

#: KAI's buckets: milliseconds.
_KAI_MS = doubling(5.0, 10)
#: Seconds: from a second to a day and more.
_WAIT_S = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600)
_STEP_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
#: By which action a pod is evicted, in KAI's words.
_ACTIONS = {
    Reason.RECLAIMED: "reclaim",
    Reason.PREEMPTED: "preempt",
    Reason.CONSOLIDATED: "consolidation",
    Reason.STALE_GANG: "stalegangeviction",
}
#: So many PodGroups keep a count of their own, those that lost pods last.
_GROUPS = 1000
#: Queues and kinds are named by users: beyond so many series, all others are counted together.
MOST_EVENTS = 5000
#: What becomes of jobs that is worth a counter. What they wait for is a gauge: `kai_pending_jobs`.
_COUNTED = frozenset(
    ("created", "started", "evicted", "interrupted", "suspended", "resumed", "ended", "warned")
)
_WITH_REASON = frozenset(("evicted", "interrupted", "ended", "warned"))
_WAITS = frozenset(("created", "grouped", "waits"))
_WAITS_AGAIN = frozenset(("evicted", "interrupted"))
_STARTS = frozenset(("started", "resumed"))
_WAITS_NO_MORE = frozenset((*_STARTS, "suspended", "shrunk", "ended"))


class Tally:
    """A controller without keys: it is told, and reconciles nothing.

    `decides`: whether the scheduler runs in this process, and not only other parts.
    """

    name = "metrics"

    def __init__(self, *, decides: bool = True) -> None:
        self.decides = decides
        self.ready = False
        """Whether the loop has begun; before, there is nothing to read."""
        self.scheduled_by: Counter[str] = Counter()
        """Gangs that an action found room for."""
        self.events: Counter[tuple[str, str, str, str]] = Counter()
        """(queue, kind, what, reason) -> how often."""
        self.job_wait_s: dict[tuple[str, ...], Histogram] = {}
        """By queue: from created, or evicted, to started."""
        self.step_s: dict[tuple[str, ...], Histogram] = {}
        """By step of a cycle; "cycle" is all of them."""
        self.action_s: dict[tuple[str, ...], Histogram] = {}
        """By action of the core."""
        self.pod_wait_ms = Histogram(_KAI_MS)
        self.bind_ms = Histogram(_KAI_MS)
        self.bind_s = Histogram(_STEP_S)
        self.usage_query_ms = Histogram(_KAI_MS)
        self.job_use = JobUse()
        self._since_s: dict[Key, float] = {}
        """PodGroup -> since when it has waited, or, after a restart, may have."""
        self._evicted: OrderedDict[tuple[str, ...], int] = OrderedDict()

    def watch(self, sight: Sight) -> None:
        """Counts what happens there from now on."""
        self._sight = sight
        sight.on_cycle(self._saw_cycle)
        sight.subscribe(self._saw_event)

    def setup(self, runtime: Runtime) -> None:
        self.job_use.setup(runtime)
        self._clock = runtime.clock
        self._groups = runtime.informer(kinds.POD_GROUP)
        self._queues = runtime.informer(kinds.QUEUE)
        self.ready = True

    def reconcile(self, key: str) -> float | None:
        return None

    # ------------------------------------------------------------------ being told

    def bound(self, seconds: float) -> None:
        """A bind was answered so long after it was sent."""
        self.bind_s.add(seconds)
        self.bind_ms.add(seconds * 1e3)

    def usage_asked(self, seconds: float) -> None:
        """Prometheus took so long to answer about past usage; called by the thread that asked."""
        self.usage_query_ms.add(seconds * 1e3)

    def _saw_cycle(self, figures: CycleFigures) -> None:
        whole_s = sum(figures.seconds.values())
        _add(self.step_s, {**figures.seconds, "cycle": whole_s})
        _add(self.action_s, figures.actions)
        cycle = self._sight.last(figures.pool)
        if cycle is not None:
            self._saw_decisions(cycle)

    def _saw_decisions(self, cycle: Cycle) -> None:
        snapshot, plan = cycle.encoded.snapshot, cycle.plan
        tasks = snapshot.tasks
        self.pod_wait_ms.add((snapshot.now_s - tasks.created_s[plan.bind_task]) * 1e3)
        if plan.bind_task.size:
            self.scheduled_by["allocate"] += np.unique(tasks.gang[plan.bind_task]).size
        if plan.evict_task.size:
            self._saw_evictions(cycle)

    def _saw_evictions(self, cycle: Cycle) -> None:
        """Only what was carried out: the rest is decided again."""
        plan, tasks = cycle.plan, cycle.encoded.snapshot.tasks
        left = cycle.state[plan.evict_task] == TaskState.RELEASING
        gang, reason = tasks.gang[plan.evict_task[left]], plan.evict_reason[left]
        for code in np.unique(reason).tolist():
            action = _ACTIONS.get(Reason(code), Reason(code).word)
            mine = reason == code
            whom = np.unique(plan.evict_for[left][mine])
            self.scheduled_by[action] += int((whom >= 0).sum())
            rows, pods = np.unique(gang[mine], return_counts=True)
            for row, count in zip(rows.tolist(), pods.tolist(), strict=True):
                if row >= 0:
                    self._count_group(cycle, row, action, count)

    def _count_group(self, cycle: Cycle, row: int, action: str, pods: int) -> None:
        key = cycle.encoded.names.gang(row)
        found = self._groups.get(key.name, key.namespace)
        if found is None:
            return
        meta = found["metadata"]
        pool = (meta.get("labels") or {}).get(L.NODE_POOL, "")
        labels = (key.name, key.namespace, meta.get("uid") or "", pool, action)
        self._evicted[labels] = self._evicted.pop(labels, 0) + pods
        while len(self._evicted) > _GROUPS:
            self._evicted.popitem(last=False)

    def _saw_event(self, event: JobEvent) -> None:
        """What is told again after a restart is known to whoever keeps the counters' past."""
        if not event.replayed and event.what in _COUNTED:
            reason = event.reason if event.what in _WITH_REASON else ""
            slot = (event.queue, event.kind, event.what, reason)
            if slot not in self.events and len(self.events) >= MOST_EVENTS:
                slot = ("", "", event.what, reason)
            self.events[slot] += 1
        gang = Key(event.namespace, event.group)
        if event.what in _WAITS:
            self._since_s.setdefault(gang, event.at_s)
        elif event.what in _WAITS_AGAIN:
            self._since_s[gang] = event.at_s
        elif event.what in _WAITS_NO_MORE:
            since_s = self._since_s.pop(gang, None)
            if since_s is not None and event.what in _STARTS and not event.replayed:
                kept = self.job_wait_s.get((event.queue,))
                if kept is None:
                    kept = self.job_wait_s[event.queue,] = Histogram(_WAIT_S)
                kept.add(event.at_s - since_s)

    # ------------------------------------------------------------------ being read

    def evicted_of_groups(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """(labels, pods) of PodGroups that are still there."""
        for labels, pods in list(self._evicted.items()):
            name, namespace = labels[:2]
            if self._groups.get(name, namespace) is not None:
                yield labels, float(pods)

    def display_names(self) -> dict[str, str]:
        """Queue -> what its owners call it; "" where they say nothing."""
        specs = ((q["metadata"]["name"], q.get("spec") or {}) for q in self._queues)
        return {name: str(spec.get("displayName") or "") for name, spec in specs}

    def oldest_wait_s(self) -> list[tuple[tuple[str, ...], float]]:
        """(queue, seconds) for queues in which a gang waits for its start."""
        first: dict[str, float] = {}
        for life in self._sight.lives.all():
            if life.phase == "waiting":
                since_s = self._since_s.get(life.key, life.created_s)
                since_s = max(since_s, life.evicted_s or since_s)
                first[life.queue] = min(since_s, first.get(life.queue, since_s))
        now_s = self._clock.now()
        return [((queue,), max(0.0, now_s - since_s)) for queue, since_s in sorted(first.items())]


def _add(kept: dict[tuple[str, ...], Histogram], seconds: Mapping[str, float]) -> None:
    for name, value in seconds.items():
        histogram = kept.get((name,))
        if histogram is None:
            histogram = kept[name,] = Histogram(_STEP_S)
        histogram.add(value)

"""The last cycles that decided something: what was bound where, who had to leave, for whom, why."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kai_ray.cluster.port import Key
from kai_ray.controllers.cycle import Cycle
from kai_ray.scheduler.gpu.prices import held, priced
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import GPU, Codes, Floats, Ints
from kai_ray.sight.figures import CycleFigures

KEPT = 200


@dataclass(frozen=True, slots=True)
class Placed:
    """Pods of one gang that got a place, or were promised one."""

    group: Key
    job: str  # "RayJob namespace/name"
    queue: str
    pods: int
    gpus: float
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evicted:
    """Pods of one gang that had to leave by one rule."""

    group: Key
    job: str
    queue: str
    pods: int
    gpus: float
    reason: str
    for_job: str  # "" = for nobody in particular
    for_queue: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """`id` grows by one with each; `cycle` is the number of the cycle in its node pool."""

    id: int
    cycle: int
    pool: str
    at_s: float
    seconds: Mapping[str, float]
    bound: tuple[Placed, ...]
    nominated: tuple[Placed, ...]
    evicted: tuple[Evicted, ...]
    waits: Mapping[str, int]  # gangs that were left waiting, by reason


class Named(Protocol):
    """What is known of a gang by name."""

    @property
    def job(self) -> str: ...
    @property
    def queue(self) -> str: ...


#: None where the gang is not known (any more).
NameOf = Callable[[Key], Named | None]


class Decisions:
    """A ring of them. Written by the loop, read by anybody, who also pays for the words."""

    def __init__(self, name_of: NameOf, kept: int = KEPT) -> None:
        self._name_of = name_of
        self._ring: deque[_Kept] = deque(maxlen=kept)
        self._lock = threading.Lock()
        self._count = 0

    @property
    def count(self) -> int:
        """How many there were so far; the last one has this id."""
        return self._count

    def last(self, most: int = KEPT) -> list[Decision]:
        """Newest first."""
        with self._lock:
            kept = list(self._ring)
        return [one.decision() for one in kept[::-1][:most]]

    def get(self, id: int) -> Decision | None:
        with self._lock:
            kept = next((k for k in self._ring if k.id == id), None)
        return kept.decision() if kept is not None else None

    def add(self, figures: CycleFigures, cycle: Cycle) -> int | None:
        """Takes in a cycle; its id, or None where it decided nothing."""
        if not figures.decided:
            return None
        plan = cycle.plan
        made = _Kept(
            self._count + 1,
            figures,
            self._placed(cycle, plan.bind_task, plan.bind_node),
            self._placed(cycle, plan.nominate_task, plan.nominate_node),
            self._evicted(cycle),
            tuple(wait.reason for wait in plan.waits),
        )
        with self._lock:
            self._count += 1
            self._ring.append(made)
        return made.id

    def _placed(self, cycle: Cycle, task: Codes, node: Codes) -> _Places:
        snapshot, names = priced(cycle.encoded.snapshot), cycle.encoded.names
        gang = snapshot.tasks.gang[task]
        starts = np.flatnonzero(np.diff(gang, prepend=-2))  # rows are grouped by gang
        gpus = held(snapshot, task.astype(np.intp))[GPU]
        keys = [names.gangs[row] for row in gang[starts].tolist()]
        known = [self._name_of(key) for key in keys]
        sums = np.add.reduceat(gpus, starts) if starts.size else np.zeros(0)
        return _Places(keys, known, starts, sums, node, names.nodes)

    def _evicted(self, cycle: Cycle) -> tuple[Evicted, ...]:
        plan = cycle.plan
        if not plan.evict_task.size:
            return ()
        snapshot, names = priced(cycle.encoded.snapshot), cycle.encoded.names
        gpus = held(snapshot, plan.evict_task.astype(np.intp))[GPU].tolist()
        rows: dict[tuple[int, int, int], list[tuple[int, float]]] = {}
        gang = snapshot.tasks.gang[plan.evict_task].tolist()
        slots = zip(gang, plan.evict_reason.tolist(), plan.evict_for.tolist(), strict=True)
        for slot, task, amount in zip(slots, plan.evict_task.tolist(), gpus, strict=True):
            rows.setdefault(slot, []).append((task, amount))
        found: list[Evicted] = []
        for (row, reason, beneficiary), of in rows.items():
            key = names.gang(row)
            job, queue = _called(key, self._name_of(key))
            whom = ("", "")
            if beneficiary >= 0:
                other = names.gang(beneficiary)
                whom = _called(other, self._name_of(other))
            on = dict.fromkeys(snapshot.tasks.node[[task for task, _ in of]].tolist())
            found.append(
                Evicted(
                    key,
                    job,
                    queue,
                    len(of),
                    float(sum(amount for _, amount in of)),
                    Reason(reason).word,
                    *whom,
                    tuple(names.nodes[n] for n in on if n >= 0),
                )
            )
        return tuple(found)


def _called(key: Key, known: Named | None) -> tuple[str, str]:
    if known is None:
        return f"PodGroup {key.namespace}/{key.name}", ""
    return known.job, known.queue


@dataclass(slots=True)
class _Places:
    """Pods that were given nodes, grouped by gang; `starts` is the first row of each."""

    keys: list[Key]
    known: list[Named | None]
    starts: Ints
    gpus: Floats
    node: Codes
    names: list[str]

    def placed(self) -> tuple[Placed, ...]:
        ends = [*self.starts.tolist()[1:], self.node.size][: len(self.keys)]
        where, found = self.node.tolist(), list[Placed]()
        rows = zip(self.keys, self.known, self.starts.tolist(), ends, self.gpus, strict=True)
        for key, known, start, end, gpus in rows:
            on = tuple(self.names[n] for n in dict.fromkeys(where[start:end]))
            job, queue = _called(key, known)
            found.append(Placed(key, job, queue, end - start, float(gpus), on))
        return tuple(found)


@dataclass(slots=True)
class _Kept:
    """A decision before anybody has asked for its words."""

    id: int
    figures: CycleFigures
    bound: _Places
    nominated: _Places
    evicted: tuple[Evicted, ...]
    waits: tuple[Reason, ...]
    _made: Decision | None = None

    def decision(self) -> Decision:
        if self._made is None:
            self._made = Decision(
                id=self.id,
                cycle=self.figures.number,
                pool=self.figures.pool,
                at_s=self.figures.at_s,
                seconds=self.figures.seconds,
                bound=self.bound.placed(),
                nominated=self.nominated.placed(),
                evicted=self.evicted,
                waits={r.word: n for r, n in Counter(self.waits).items()},
            )
        return self._made

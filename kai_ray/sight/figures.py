"""The figures of queues, nodes and cycles, as columns: what metrics, history and pages all read.

Everything here is computed from the record of a cycle by a few vector operations; the loop itself
only keeps the record. Resource rows are cpu (millicores), memory (bytes), gpu (devices).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kai_ray.controllers.cycle import Cycle
from kai_ray.controllers.facts import gang_facts, queue_facts
from kai_ray.scheduler.gpu.prices import held, priced
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import CPU, GPU, MEMORY, USED, Bools, Codes, Floats, Ints
from kai_ray.sight.placed import placed_tasks

RESOURCES = ("cpu", "memory", "gpu")
_USED = np.array([int(s) for s in USED])


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """Columns per queue, of all node pools; amounts are [3, Q], -1 = unlimited.

    `allocated`, `requested` and `waiting` count the queues below as well; `reasons` only what waits
    in the queue itself: (queue, reason word) -> gangs that wait for their start.
    """

    at_s: float
    names: list[str]
    parent: list[str]  # "" = top level
    pool: list[str]
    leaf: Bools
    priority: Codes
    quota: Floats
    limit: Floats
    fair_share: Floats
    allocated: Floats
    requested: Floats
    usage: Floats  # part of the cluster that was held lately, 0 to 1
    waiting: Ints
    row_of: dict[str, int]
    reasons: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """Columns per node, of all node pools. Parts of a GPU count as parts."""

    at_s: float
    names: list[str]
    pool: list[str]
    gpus: Floats
    allocated: Floats  # GPUs that pods hold, those that are leaving included
    shared: Ints  # devices of which parts are held
    pods: Ints
    state: list[str]  # Ready or NotReady, then Cordoned
    cpu: Floats  # [2, N] allocatable and held, millicores
    memory: Floats  # [2, N] bytes
    row_of: dict[str, int]
    holding_node: Ints  # a row per node and queue that holds GPUs of it: row here ...
    holding_queue: list[str]  # ... the queue ...
    holding_gpus: Floats  # ... and how many

    @property
    def free(self) -> Floats:
        return np.maximum(self.gpus - self.allocated, 0.0)


@dataclass(frozen=True, slots=True)
class CycleFigures:
    """One cycle of one node pool. Counts are pods, `gangs_waiting` is gangs."""

    number: int
    pool: str
    at_s: float
    seconds: Mapping[str, float]  # by step: snapshot, decide, bind, evict
    pods: int
    bound: int
    nominated: int
    evicted: Mapping[str, int]  # by reason
    waiting: int
    actions: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds of each action of the core, within `decide`; "prepare" comes before them."""

    @property
    def decided(self) -> bool:
        """Whether anything came of it."""
        return bool(self.bound or self.nominated or self.evicted)


def cycle_figures(
    pool: str,
    cycle: Cycle,
    seconds: Mapping[str, float],
    actions: Mapping[str, float] | None = None,
) -> CycleFigures:
    plan, snapshot = cycle.plan, cycle.encoded.snapshot
    reasons, counts = np.unique(plan.evict_reason, return_counts=True)
    return CycleFigures(
        number=cycle.number,
        pool=pool,
        at_s=snapshot.now_s,
        seconds=seconds,
        pods=snapshot.tasks.count,
        bound=int(plan.bind_task.size),
        nominated=int(plan.nominate_task.size),
        evicted={Reason(r).word: n for r, n in zip(reasons.tolist(), counts.tolist(), strict=True)},
        waiting=len(plan.waits),
        actions=actions or {},
    )


def queue_figures(cycles: Mapping[str, Cycle]) -> QueueFigures:
    """Of the last cycle of each node pool; `reasons` are not known to cycles."""
    parts = [_queues(pool, cycle) for pool, cycle in sorted(cycles.items())]
    names = [name for part in parts for name in part.names]
    return QueueFigures(
        at_s=max((part.at_s for part in parts), default=0.0),
        names=names,
        parent=[p for part in parts for p in part.parent],
        pool=[p for part in parts for p in part.pool],
        leaf=_joined([part.leaf for part in parts], np.bool_),
        priority=_joined([part.priority for part in parts], np.int32),
        waiting=_joined([part.waiting for part in parts], np.int64),
        row_of={name: row for row, name in enumerate(names)},
        quota=_wide([part.quota for part in parts]),
        limit=_wide([part.limit for part in parts]),
        fair_share=_wide([part.fair_share for part in parts]),
        allocated=_wide([part.allocated for part in parts]),
        requested=_wide([part.requested for part in parts]),
        usage=_wide([part.usage for part in parts]),
    )


def _queues(pool: str, cycle: Cycle) -> QueueFigures:
    facts = queue_facts(cycle, gang_facts(cycle))
    snapshot, names = cycle.encoded.snapshot, facts.names
    queues = snapshot.queues
    leaf = np.ones(queues.count, dtype=np.bool_)
    leaf[queues.parent[queues.parent >= 0]] = False
    return QueueFigures(
        at_s=snapshot.now_s,
        names=names,
        parent=[names[p] if p >= 0 else "" for p in queues.parent.tolist()],
        pool=[pool] * len(names),
        leaf=leaf,
        priority=queues.priority,
        quota=queues.quota,
        limit=queues.limit,
        fair_share=facts.fair_share,
        allocated=facts.allocated,
        requested=facts.requested,
        usage=queues.usage,
        waiting=facts.pending,
        row_of={},
    )


def node_figures(cycles: Mapping[str, Cycle]) -> NodeFigures:
    parts = [_nodes(pool, cycle) for pool, cycle in sorted(cycles.items())]
    names = [name for part in parts for name in part.names]
    first = np.cumsum([0, *(len(part.names) for part in parts)])
    return NodeFigures(
        at_s=max((part.at_s for part in parts), default=0.0),
        names=names,
        pool=[p for part in parts for p in part.pool],
        gpus=_joined([part.gpus for part in parts], np.float64),
        allocated=_joined([part.allocated for part in parts], np.float64),
        shared=_joined([part.shared for part in parts], np.int64),
        pods=_joined([part.pods for part in parts], np.int64),
        state=[s for part in parts for s in part.state],
        cpu=_wide([part.cpu for part in parts], 2),
        memory=_wide([part.memory for part in parts], 2),
        row_of={name: row for row, name in enumerate(names)},
        holding_node=_joined(
            [part.holding_node + start for part, start in zip(parts, first, strict=False)], np.int64
        ),
        holding_queue=[q for part in parts for q in part.holding_queue],
        holding_gpus=_joined([part.holding_gpus for part in parts], np.float64),
    )


def _nodes(pool: str, cycle: Cycle) -> NodeFigures:
    snapshot, names = priced(cycle.encoded.snapshot), cycle.encoded.names
    snapshot = placed_tasks(cycle, snapshot)
    nodes, tasks, count = snapshot.nodes, snapshot.tasks, snapshot.nodes.count
    rows = np.flatnonzero((tasks.node >= 0) & np.isin(cycle.state, _USED))
    where, amounts = tasks.node[rows], held(snapshot, rows)
    request = snapshot.classes.request[:, tasks.klass[rows]]

    def summed(values: np.ndarray) -> Floats:
        return np.bincount(where, weights=values, minlength=count).astype(np.float64)

    node, queue, gpus = _holdings(snapshot.gangs.queue, tasks.gang[rows], where, amounts[GPU])
    return NodeFigures(
        at_s=snapshot.now_s,
        names=names.nodes,
        pool=[pool] * count,
        gpus=nodes.allocatable[GPU].astype(np.float64),
        allocated=summed(amounts[GPU]),
        shared=_shared(cycle, tasks.node, count),
        pods=np.bincount(where, minlength=count).astype(np.int64),
        state=_states(nodes.ready, nodes.cordoned),
        cpu=np.stack([nodes.allocatable[CPU].astype(np.float64), summed(request[CPU])]),
        memory=np.stack([nodes.allocatable[MEMORY].astype(np.float64), summed(request[MEMORY])]),
        row_of={},
        holding_node=node,
        holding_queue=[names.queue(q) for q in queue.tolist()],
        holding_gpus=gpus,
    )


def _holdings(queue_of: Codes, gang: Codes, node: Codes, gpus: Floats) -> tuple[Ints, Ints, Floats]:
    """(node, queue, GPUs), a row for each pair that holds any."""
    ours = (gang >= 0) & (gpus > 0)
    queue = np.where(ours, queue_of[gang], -1) if queue_of.size else np.full(gang.shape, -1)
    ours &= queue >= 0
    width = int(queue_of.max(initial=0)) + 1
    pairs, back = np.unique(node[ours].astype(np.int64) * width + queue[ours], return_inverse=True)
    sums = np.bincount(back.reshape(-1), weights=gpus[ours], minlength=pairs.size)
    return pairs // width, pairs % width, sums.astype(np.float64)


def _shared(cycle: Cycle, node: Codes, count: int) -> Ints:
    """[N] devices of which somebody holds a part."""
    gpus, plan = cycle.encoded.snapshot.gpus, cycle.plan
    if gpus is None:
        return np.zeros(count, dtype=np.int64)
    task = np.concatenate([gpus.hold_task, plan.grant_task]).astype(np.int64)
    slot = np.concatenate([gpus.hold_slot, plan.grant_slot]).astype(np.int64)
    there = (node[task] >= 0) & np.isin(cycle.state[task], _USED)
    width = int(slot.max(initial=0)) + 1
    devices = np.unique(node[task[there]].astype(np.int64) * width + slot[there])
    return np.bincount(devices // width, minlength=count).astype(np.int64)


def _states(ready: Bools, cordoned: Bools) -> list[str]:
    words = ("NotReady", "Ready", "NotReady,Cordoned", "Ready,Cordoned")
    return [words[code] for code in (ready + 2 * cordoned.astype(np.int64)).tolist()]


def _joined(parts: Sequence[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype=kind), *parts])


def _wide(parts: Sequence[Floats], rows: int = 3) -> Floats:
    return np.concatenate([np.zeros((rows, 0)), *parts], axis=1)

"""Our metrics: queues, jobs, nodes and the scheduler itself, in base units (docs/metrics.md).

What is not limited has no series, so that sums over queues mean something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from prometheus_client.core import Metric

from kai_ray.metrics.families import counter, gauge, histogram
from kai_ray.metrics.tally import Tally
from kai_ray.scheduler.snapshot import CPU, GPU, MEMORY
from kai_ray.sight.figures import NodeFigures, QueueFigures
from kai_ray.sight.sight import Totals

#: Label "state" -> column of the figures.
_STATES = {
    "quota": "quota",
    "limit": "limit",
    "fair": "fair_share",
    "allocated": "allocated",
    "requested": "requested",
}
_AMOUNTS = (
    ("kai_queue_gpus", "GPUs of a queue, with those below it", GPU, 1.0),
    ("kai_queue_cpu_cores", "CPU cores of a queue, with those below it", CPU, 1e3),
    ("kai_queue_memory_bytes", "Memory of a queue, with those below it", MEMORY, 1.0),
)


def queues(figures: QueueFigures) -> Iterator[Metric]:
    for name, text, resource, divisor in _AMOUNTS:
        rows = [
            ((queue, state), amount / divisor)
            for state, column in _STATES.items()
            for queue, amount in zip(
                figures.names, getattr(figures, column)[resource].tolist(), strict=True
            )
            if amount >= 0
        ]
        yield gauge(name, text, ("queue", "state"), rows)
    yield gauge(
        "kai_queue_waiting_jobs",
        "Gangs of a queue that wait for their start, with those of queues below",
        ("queue",),
        (((q,), float(n)) for q, n in zip(figures.names, figures.waiting.tolist(), strict=True)),
    )
    parents = zip(figures.names, figures.parent, figures.pool, strict=True)
    yield gauge(
        "kai_queue_parent_info",
        "1 for every queue; parent is empty at the top",
        ("queue", "parent", "node_pool", "leaf"),
        (((*p, str(leaf).lower()), 1.0) for p, leaf in zip(parents, figures.leaf, strict=True)),
    )


def jobs(figures: QueueFigures, tally: Tally) -> Iterator[Metric]:
    yield gauge(
        "kai_pending_jobs",
        "Gangs that wait for their start, by what they wait for",
        ("queue", "reason"),
        ((key, float(n)) for key, n in sorted(figures.reasons.items())),
    )
    yield counter(
        "kai_job_events_total",
        "What became of jobs: created, started, evicted, interrupted, suspended, resumed, ended",
        ("queue", "kind", "what", "reason"),
        ((key, float(n)) for key, n in sorted(dict(tally.events).items())),
    )
    yield histogram(
        "kai_job_wait_seconds",
        "From created, evicted or resumed to started",
        ("queue",),
        dict(tally.job_wait_s),
    )
    yield gauge(
        "kai_oldest_waiting_job_seconds",
        "For how long the oldest job of a queue has waited for its start",
        ("queue",),
        tally.oldest_wait_s(),
    )


def nodes(figures: NodeFigures) -> Iterator[Metric]:
    """Nothing from a process that has decided nothing yet, such as one that stands by."""
    if not figures.names:
        return
    columns = {"capacity": figures.gpus, "allocated": figures.allocated, "free": figures.free}
    columns["shared"] = figures.shared.astype(np.float64)
    rows = [
        ((name, pool, state), amount)
        for state, column in columns.items()
        for name, pool, amount in zip(figures.names, figures.pool, column.tolist(), strict=True)
    ]
    yield gauge("kai_node_gpus", "GPUs of a node", ("node", "node_pool", "state"), rows)
    states = Counter(zip(figures.state, figures.pool, strict=True))
    yield gauge(
        "kai_nodes",
        "Nodes by what they are ready for",
        ("state", "node_pool"),
        ((key, float(n)) for key, n in sorted(states.items())),
    )
    for name, text, amounts, divisor in (
        ("kai_cluster_gpus", "GPUs of all nodes", (figures.gpus, figures.allocated), 1.0),
        ("kai_cluster_cpu_cores", "CPU cores of all nodes", figures.cpu, 1e3),
        ("kai_cluster_memory_bytes", "Memory of all nodes", figures.memory, 1.0),
    ):
        whole, held = (float(column.sum()) / divisor for column in amounts)
        yield gauge(name, text, ("state",), [(("capacity",), whole), (("allocated",), held)])
    yield from _fragmentation(figures)


def _fragmentation(figures: NodeFigures) -> Iterator[Metric]:
    """Of nodes that take work: what is free elsewhere is of no use."""
    open_ = np.array([state == "Ready" for state in figures.state], dtype=np.bool_)
    free, gpus = figures.free[open_], figures.gpus[open_]
    total = float(free.sum())
    whole = float(free[free >= gpus].sum())
    yield gauge(
        "kai_gpu_fragmentation_ratio",
        "Part of the free GPUs that is on nodes where others are taken; 0 = none",
        (),
        [((), (total - whole) / total if total > 0 else 0.0)],
    )
    sizes = range(1, int(gpus.max(initial=0)) + 1)
    yield gauge(
        "kai_nodes_with_free_gpus",
        "Nodes on which a pod with so many GPUs would find them free",
        ("gpus",),
        (((str(size),), float((free >= size).sum())) for size in sizes),
    )


def scheduler(totals: Totals, tally: Tally, objects: Mapping[str, int]) -> Iterator[Metric]:
    """`objects`: kind -> rows of the last pictures."""
    yield counter(
        "kai_scheduler_cycles_total",
        "Cycles that decided, whatever came of them",
        (),
        [((), float(totals.cycles))],
    )
    decided = [(("bind", ""), float(totals.bound)), (("nominate", ""), float(totals.nominated))]
    decided += [(("evict", r), float(n)) for r, n in sorted(totals.evicted.items())]
    yield counter(
        "kai_decisions_total",
        "Pods that were bound, promised a place or evicted, by the rule",
        ("kind", "reason"),
        decided,
    )
    yield histogram(
        "kai_scheduler_cycle_seconds",
        "How long the steps of a cycle took; step cycle is all of them",
        ("step",),
        dict(tally.step_s),
    )
    yield histogram(
        "kai_scheduler_action_seconds",
        "How long the actions of a cycle took; action prepare is what comes before them",
        ("action",),
        dict(tally.action_s),
    )
    yield histogram(
        "kai_bind_seconds", "From a bind's request to its answer", (), {(): tally.bind_s}
    )
    yield gauge(
        "kai_snapshot_objects",
        "Rows of the last picture of the cluster",
        ("kind",),
        (((kind,), float(n)) for kind, n in objects.items()),
    )

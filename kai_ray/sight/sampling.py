"""The figures that history keeps, taken from sight at one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from kai_ray.cluster.informer import Informer
from kai_ray.cluster.port import Object
from kai_ray.controllers.suspensions import BY_GROUP
from kai_ray.history.job_book import Use
from kai_ray.scheduler.snapshot import CPU, GPU, MEMORY
from kai_ray.sight.figures import NodeFigures
from kai_ray.sight.gpu import GpuColumns
from kai_ray.sight.life import Life
from kai_ray.sight.sight import Sight

Columns = dict[str, Any]


def queue_sample(sight: Sight) -> tuple[list[str], Columns]:
    q = sight.queues
    return q.names, {
        "quota": q.quota[GPU],
        "limit": q.limit[GPU],
        "fair_share": q.fair_share[GPU],
        "allocated": q.allocated[GPU],
        "requested": q.requested[GPU],
        "waiting": q.waiting,
        "cpu_allocated": q.allocated[CPU],
        "cpu_requested": q.requested[CPU],
        "memory_allocated": q.allocated[MEMORY],
        "memory_requested": q.requested[MEMORY],
    }


def node_sample(sight: Sight, now_s: float) -> tuple[list[str], Columns]:
    n = sight.nodes
    used, used_mib = _use_of_nodes(n, sight.gpu.columns(now_s))
    return n.names, {
        "gpus": n.gpus,
        "allocated": n.allocated,
        "shared": n.shared,
        "used": used,
        "used_mib": used_mib,
        "ready": np.array([state == "Ready" for state in n.state], dtype=np.float64),
    }


def _use_of_nodes(nodes: NodeFigures, gpus: GpuColumns) -> tuple[np.ndarray, np.ndarray]:
    """[N] device time and memory in use; NaN where nothing is known."""
    used, used_mib = np.full(len(nodes.names), np.nan), np.full(len(nodes.names), np.nan)
    rows = np.array([nodes.row_of.get(name, -1) for name in gpus.nodes], dtype=np.int64)
    if not gpus.node.size:
        return used, used_mib
    row = rows[gpus.node]
    for values, into in ((gpus.utilization, used), (gpus.used_mib, used_mib)):
        known = (row >= 0) & gpus.fresh & ~np.isnan(values)
        sums = np.bincount(row[known], weights=values[known], minlength=into.size)
        there = np.bincount(row[known], minlength=into.size) > 0
        into[there] = sums[there]
    return used, used_mib


def cluster_sample(sight: Sight, since_s: float, now_s: float) -> tuple[list[str], Columns]:
    """One row for each node pool; cycles since `since_s`."""
    n, q = sight.nodes, sight.queues
    pools = sorted({*n.pool, *q.pool})
    row_of = {pool: row for row, pool in enumerate(pools)}
    at = np.array([row_of[pool] for pool in n.pool], dtype=np.int64)
    count = len(pools)
    used, _ = _use_of_nodes(n, sight.gpu.columns(now_s))
    top = np.array([parent == "" for parent in q.parent], dtype=np.bool_)
    queue_at = np.array([row_of[pool] for pool in q.pool], dtype=np.int64)

    def of_nodes(values: np.ndarray) -> np.ndarray:
        return np.bincount(at, weights=values, minlength=count)

    def of_queues(values: np.ndarray) -> np.ndarray:
        return np.bincount(queue_at[top], weights=values[top], minlength=count)

    known = ~np.isnan(used)
    use = np.full(count, np.nan)
    there = np.bincount(at[known], minlength=count) > 0
    use[there] = np.bincount(at[known], weights=used[known], minlength=count)[there]
    return pools, {
        "gpus": of_nodes(n.gpus),
        "allocated": of_nodes(n.allocated),
        "requested": of_queues(q.requested[GPU]),
        "waiting": of_queues(q.waiting),
        "pods": of_nodes(n.pods),
        "cycle_s": _cycle_seconds(sight, pools, since_s),
        "used": use,
        "whole_nodes": of_nodes((n.gpus > 0) & (n.allocated <= 0)),
    }


def _cycle_seconds(sight: Sight, pools: list[str], since_s: float) -> np.ndarray:
    """[pools] mean of the cycles since then; NaN where there was none."""
    found = np.full(len(pools), np.nan)
    for row, pool in enumerate(pools):
        took = [
            sum(c.seconds.values()) for c in sight.cycles if c.pool == pool and c.at_s >= since_s
        ]
        if took:
            found[row] = sum(took) / len(took)
    return found


def pods_of(pods: Informer) -> Callable[[Life], list[Object]]:
    """The pods of a gang, as the cache has them."""
    return lambda life: pods.by_index(BY_GROUP, f"{life.key.namespace}/{life.key.name}")


def job_uses(
    sight: Sight, pods: Callable[[Life], list[Object]], now_s: float
) -> Iterable[tuple[str, Use, float]]:
    """(UID, what it does, MiB in use or NaN) for each job that holds GPUs."""
    by_job: dict[str, list[Life]] = {}
    for life in sight.lives.all():
        if life.place.gpus > 0:
            by_job.setdefault(life.uid, []).append(life)
    for uid, lives in by_job.items():
        found = sight.gpu.pods([pod for life in lives for pod in pods(life)], now_s)
        if found.known > 0:
            memory = float("nan") if found.used_mib is None else float(found.used_mib)
            yield uid, Use(found.held, found.known, found.used), memory

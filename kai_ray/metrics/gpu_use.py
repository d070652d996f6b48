"""How GPUs are used, by the node: what the node agents or the simulated nodes say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from prometheus_client.core import Metric

from kai_ray.metrics.families import gauge
from kai_ray.scheduler.snapshot import Floats
from kai_ray.sight.gpu import GpuColumns, GpuSight

_BYTES_PER_MIB = 1024 * 1024


def families(sight: GpuSight) -> Iterator[Metric]:
    """Nodes whose figures are old or missing have no series but the one that says so."""
    columns = sight.columns()
    count = len(columns.nodes)
    known = columns.fresh & ~np.isnan(columns.utilization)
    devices = _per_node(columns, known, np.ones(columns.node.size))
    busy = _per_node(columns, known, columns.utilization)
    yield gauge(
        "kai_node_gpu_utilization_ratio",
        "Mean use of a node's GPUs over the agent's last period, 0 to 1",
        ("node",),
        [((columns.nodes[n],), busy[n] / devices[n]) for n in np.flatnonzero(devices).tolist()],
    )
    sized = columns.fresh & ~np.isnan(columns.used_mib)
    there, used = _per_node(columns, sized, 1.0), _per_node(columns, sized, columns.used_mib)
    yield gauge(
        "kai_node_gpu_memory_used_bytes",
        "Memory of a node's GPUs that is in use",
        ("node",),
        [((columns.nodes[n],), used[n] * _BYTES_PER_MIB) for n in np.flatnonzero(there).tolist()],
    )
    bad = _per_node(columns, ~columns.healthy, 1.0)
    yield gauge(
        "kai_node_unhealthy_gpus",
        "GPUs of a node that its agent reports as broken",
        ("node",),
        [((columns.nodes[n],), bad[n]) for n in range(count)],
    )
    silent = [bool(sight.problem(name)) for name in columns.nodes]
    yield gauge(
        "kai_node_gpu_data_missing",
        "1 for a node whose agent has said nothing for a while",
        ("node",),
        [((name,), float(gone)) for name, gone in zip(columns.nodes, silent, strict=True)],
    )


def _per_node(columns: GpuColumns, rows: np.ndarray, values: np.ndarray | float) -> Floats:
    weights = np.broadcast_to(values, columns.node.shape)[rows]
    sums = np.bincount(columns.node[rows], weights=weights, minlength=len(columns.nodes))
    return sums.astype(np.float64)

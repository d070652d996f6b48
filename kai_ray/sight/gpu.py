"""How GPUs are used: per device in columns, per node, per job. From agents or simulated nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kai_ray.cluster.port import Object
from kai_ray.cluster.runtime import Runtime
from kai_ray.gpu.node_use import NodeUse
from kai_ray.gpu.use import GpuUse, PodUse

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GpuColumns:
    """One row a device, by node name and index. What nobody says is NaN, never 0."""

    nodes: tuple[str, ...]  # names; `node` points into them
    node: NDArray[np.int32]  # [D]
    index: NDArray[np.int32]  # [D] number of the device on its node
    uuids: tuple[str, ...]  # [D]
    models: tuple[str, ...]  # [D]
    utilization: Floats  # [D] part of the time, 0 to 1
    used_mib: Floats  # [D]
    memory_mib: Floats  # [D]
    power_watts: Floats  # [D]
    healthy: NDArray[np.bool_]  # [D]
    observed_s: Floats  # [D] seconds since the epoch
    fresh: NDArray[np.bool_]  # [D] whether that is recent enough to be believed


class GpuSight:
    """Reads what informers hold. Columns are built again only after something has changed."""

    def __init__(self, use: GpuUse | None = None) -> None:
        self.use = use or GpuUse()
        self._built: tuple[int, GpuColumns] | None = None
        self._runtime: Runtime | None = None

    def setup(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.use.setup(runtime)

    def nodes(self) -> list[NodeUse]:
        """Every node that has an agent, or had one; by name."""
        return sorted(list(self.use.nodes.values()), key=lambda node: node.name)

    def node(self, name: str) -> NodeUse | None:
        return self.use.nodes.get(name)

    def problem(self, name: str, now_s: float | None = None) -> str:
        """Why nothing is known of a node now, "no GPU data from node x since …"; "" if it is."""
        return self.use.stale(name, self._now(now_s))

    def pods(self, pods: Iterable[Object], now_s: float | None = None) -> PodUse:
        """What the pods of a job hold and use together."""
        return self.use.of_pods(pods, self._now(now_s))

    def columns(self, now_s: float | None = None) -> GpuColumns:
        now, version = self._now(now_s), self.use.version
        if self._built is None or self._built[0] != version:
            self._built = (version, _columns(self.nodes()))
        found = self._built[1]
        stale = np.array([bool(self.use.stale(n, now)) for n in found.nodes], dtype=np.bool_)
        fresh = ~stale[found.node] if found.node.size else np.zeros(0, dtype=np.bool_)
        return replace(found, fresh=fresh)

    def _now(self, now_s: float | None) -> float:
        if now_s is not None:
            return now_s
        return self._runtime.clock.now() if self._runtime is not None else 0.0


def _columns(nodes: list[NodeUse]) -> GpuColumns:
    rows = [(at, node, d) for at, node in enumerate(nodes) for d in node.devices]
    devices = [device for _, _, device in rows]
    return GpuColumns(
        nodes=tuple(node.name for node in nodes),
        node=np.array([at for at, _, _ in rows], dtype=np.int32),
        index=np.array([d.index for d in devices], dtype=np.int32),
        uuids=tuple(d.uuid for d in devices),
        models=tuple(d.model for d in devices),
        utilization=_numbers(d.utilization for d in devices),
        used_mib=_numbers(d.used_mib for d in devices),
        memory_mib=_numbers(d.memory_mib for d in devices),
        power_watts=_numbers(d.power_watts for d in devices),
        healthy=np.array([d.healthy for d in devices], dtype=np.bool_),
        observed_s=_numbers(node.observed_s for _, node, _ in rows),
        fresh=np.ones(len(rows), dtype=np.bool_),
    )


def _numbers(values: Iterable[Any]) -> Floats:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)

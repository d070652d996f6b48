"""A small cluster with NUMA cells and link groups: what zone tests are written in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kai_ray.scheduler import DEFAULT, Policy
from kai_ray.scheduler.snapshot import ALLOCATED, CPU, GPU, Snapshot
from kai_ray.scheduler.zones.facts import Unit, ZonePolicy, Zones
from tests.core.world import Job, Node, Outcome, Pod, World

ROWS = (CPU, GPU, 4)  # whole CPUs in millicores, GPUs, network cards


@dataclass(frozen=True)
class Numa:
    """Cells of a node: (cpu millicores, GPUs, network cards) each."""

    cells: tuple[tuple[int, int, int], ...] = ((4000, 1, 0), (4000, 1, 0))
    policy: ZonePolicy = ZonePolicy.SINGLE
    per_container: bool = False


@dataclass(frozen=True)
class Asks:
    """How pods of a shape are aligned."""

    guaranteed: bool = True
    own: ZonePolicy = ZonePolicy.NONE
    containers: tuple[Unit, ...] = ()


@dataclass
class Found:
    outcome: Outcome
    cells: dict[str, list[int]] = field(default_factory=dict[str, list[int]])  # by pod
    links: dict[str, list[int]] = field(default_factory=dict[str, list[int]])


class Cells(World):
    """`held` says (cell, amounts) of running pods; `links` GPUs per link group of a node."""

    def __init__(
        self,
        nodes: Sequence[Node],
        jobs: Sequence[Job],
        numa: Mapping[str, Numa] | None = None,
        links: Mapping[str, tuple[int, ...]] | None = None,
        asks: Mapping[str, Asks] | None = None,
        held: Mapping[str, tuple[int, tuple[int, int, int]]] | None = None,
    ) -> None:
        super().__init__(nodes, jobs)
        self.numa, self.links = numa or {}, links or {}
        self.asks, self.held = asks or {}, held or {}

    def snapshot(self) -> Snapshot:
        plain = super().snapshot()
        links = {
            name: Numa(tuple((0, gpus, 0) for gpus in groups), ZonePolicy.BEST_EFFORT)
            for name, groups in self.links.items()
        }
        return replace(
            plain,
            zones=self._zones(plain, self.numa, self.held) if self.numa else None,
            links=self._zones(plain, links, {}) if links else None,
        )

    def settle(self, policy: Policy = DEFAULT) -> Found:
        """Decides, and names the zones of the pods that got a place."""
        found = Found(self.decide(policy))
        plan = found.outcome.plan
        columns = (plan.zone_task, plan.zone_kind, plan.zone_index)
        for task, kind, zone in zip(*(c.tolist() for c in columns), strict=True):
            mine = (found.links if kind else found.cells).setdefault(self.pod_names[task], [])
            if zone not in mine:
                mine.append(zone)
        return found

    def _zones(
        self,
        plain: Snapshot,
        stated: Mapping[str, Numa],
        held: Mapping[str, tuple[int, tuple[int, int, int]]],
    ) -> Zones:
        most = max(len(numa.cells) for numa in stated.values())
        allocatable = np.zeros((most, 3, len(self.nodes)), dtype=np.int64)
        for n, node in enumerate(self.nodes):
            for z, cell in enumerate(stated[node.name].cells if node.name in stated else ()):
                allocatable[z, :, n] = cell
        available = allocatable.copy()
        holds: list[tuple[int, int, int, int]] = []
        for pod, (zone, amounts) in held.items():
            task = self.pod_names.index(pod)
            for row, amount in enumerate(amounts):
                holds.append((task, zone, row, amount))
                if plain.tasks.state[task] in [int(s) for s in ALLOCATED]:
                    available[zone, row, plain.tasks.node[task]] -= amount
        columns = np.array(holds, dtype=np.int64).reshape(-1, 4).T
        rows = [stated.get(node.name) for node in self.nodes]
        units, own = zip(*(self._unit(shape) for shape in self.shapes), strict=True)
        linked = stated is not self.numa
        return Zones(
            rows=ROWS,
            count=np.array([len(r.cells) if r else 0 for r in rows], dtype=np.int32),
            policy=np.array([r.policy if r else 0 for r in rows], dtype=np.int8),
            per_container=np.array([bool(r) and r.per_container for r in rows], dtype=np.bool_),
            allocatable=allocatable,
            available=available,
            aware=allocatable.max(axis=0) > 0,
            pod_unit=tuple(u[0] for u in units),
            units=tuple(u[1] for u in units),
            own_policy=np.array([o[linked] for o in own], dtype=np.int8),
            hold_task=columns[0].astype(np.int32),
            hold_zone=columns[1].astype(np.int32),
            hold_row=columns[2].astype(np.int32),
            hold_amount=columns[3],
        )

    def _unit(self, shape: Pod) -> tuple[tuple[Unit | None, tuple[Unit, ...]], tuple[int, int]]:
        """The shape's units, and what it asks itself: (of cells, of links)."""
        asks = self.asks.get(shape.label, Asks())
        cpu = shape.cpu if asks.guaranteed and shape.cpu % 1000 == 0 else 0
        unit = Unit((cpu, shape.gpus, shape.extra))
        linked = asks.own == ZonePolicy.SINGLE and shape.label.endswith("nvlink")
        own = (int(ZonePolicy.NONE), int(asks.own)) if linked else (int(asks.own), 0)
        if not asks.guaranteed and not any(unit.want):
            return (None, ()), own
        return (unit, asks.containers or (unit,)), own

"""A small cluster with racks and zones: what topology tests are written in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kai_ray.scheduler import DEFAULT, Policy
from kai_ray.scheduler.snapshot import Snapshot
from kai_ray.scheduler.topology.facts import NONE, UNKNOWN, Topologies
from tests.core.world import Job, Node, Outcome, Queue, World


@dataclass(frozen=True)
class Bond:
    """What a subgroup asks; levels by label key."""

    required: str = ""
    preferred: str = ""
    topology: str = "cluster"


class Racks(World):
    """`bonds` maps a job, or "job/subgroup", to its constraint."""

    def __init__(
        self,
        nodes: Sequence[Node],
        jobs: Sequence[Job],
        bonds: Mapping[str, Bond],
        levels: Mapping[str, tuple[str, ...]] | None = None,
        queues: Sequence[Queue] = (Queue("q"),),
    ) -> None:
        super().__init__(nodes, jobs, queues)
        self.bonds = bonds
        self.levels = levels or {"cluster": ("zone", "rack")}

    def snapshot(self) -> Snapshot:
        plain = super().snapshot()
        names = list(self.levels)
        first = np.cumsum([0, *(len(self.levels[name]) for name in names)]).astype(np.int32)
        rows = [row for name in names for row in self._domains(self.levels[name])]
        domain = np.array(rows, dtype=np.int32).reshape(len(rows), len(self.nodes))
        columns = np.full((3, plain.subgroups.gang.shape[0]), NONE, dtype=np.int32)
        for place, bond in self.bonds.items():
            topology = names.index(bond.topology) if bond.topology in names else UNKNOWN
            columns[:, self._row(place, plain)] = (
                topology,
                self._level(bond.topology, bond.required),
                self._level(bond.topology, bond.preferred),
            )
        subgroups = replace(
            plain.subgroups,
            topology=columns[0],
            required_level=columns[1],
            preferred_level=columns[2],
        )
        return replace(plain, subgroups=subgroups, topologies=Topologies(first, domain))

    def decide(self, policy: Policy = DEFAULT) -> Outcome:
        outcome = super().decide(policy)
        names = replace(
            outcome.names,
            level=lambda t, level: list(self.levels.values())[t][level],
            domain=lambda t, level, code: self._paths(list(self.levels.values())[t], level)[code],
        )
        return replace(outcome, names=names)

    def racks(self, outcome: Outcome, job: str, key: str = "rack") -> list[str]:
        """Where the job's bound or nominated pods are, by pod."""
        label = {node.name: node.labels.get(key, "") for node in self.nodes}
        placed = {**outcome.bound, **outcome.nominated}
        mine = [name for name in self.pod_names if name.rsplit("-", 1)[0] == job]
        return [label[placed[name]] for name in mine if name in placed]

    def _row(self, place: str, plain: Snapshot) -> int:
        job, _, subgroup = place.partition("/")
        gang = [one.name for one in self.jobs].index(job)
        root = int(plain.gangs.root[gang])
        if not subgroup:
            return root
        if subgroup == "pods":
            return root + 1
        return root + [row[0] for row in self.jobs[gang].tree].index(subgroup)

    def _level(self, topology: str, key: str) -> int:
        if not key:
            return NONE
        levels = self.levels.get(topology, ())
        return levels.index(key) if key in levels else UNKNOWN

    def _paths(self, levels: tuple[str, ...], depth: int) -> list[str]:
        return sorted(
            {
                ".".join(node.labels[key] for key in levels[: depth + 1])
                for node in self.nodes
                if all(key in node.labels for key in levels)
            }
        )

    def _domains(self, levels: tuple[str, ...]) -> list[list[int]]:
        rows: list[list[int]] = []
        for depth in range(len(levels)):
            known = self._paths(levels, depth)
            rows.append(
                [
                    known.index(".".join(node.labels[key] for key in levels[: depth + 1]))
                    if all(key in node.labels for key in levels)
                    else -1
                    for node in self.nodes
                ]
            )
        return rows


def node(name: str, rack: str, gpus: int = 4, zone: str = "z1") -> Node:
    """A node in a rack of a zone."""
    return Node(name, gpus=gpus, labels={"zone": zone, "rack": rack})

"""Where pods stand after a cycle: those that it bound included."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kai_ray.controllers.cycle import Cycle
from kai_ray.scheduler.gpu.prices import held, priced
from kai_ray.scheduler.snapshot import ALLOCATED, GPU, Snapshot

_ALLOCATED = np.array([int(s) for s in ALLOCATED])


@dataclass(frozen=True, slots=True)
class Place:
    """What a gang holds: pods, GPUs (parts counted), its nodes by name, GPUs by node's row."""

    pods: int
    gpus: float
    nodes: tuple[str, ...]
    by_node: tuple[tuple[int, float], ...]


NOWHERE = Place(0, 0.0, (), ())


def placed_tasks(cycle: Cycle, snapshot: Snapshot) -> Snapshot:
    """The snapshot with the nodes that its pods were given in this cycle."""
    plan = cycle.plan
    if not plan.bind_task.size:
        return snapshot
    node = snapshot.tasks.node.copy()
    node[plan.bind_task] = plan.bind_node
    return dataclasses.replace(snapshot, tasks=dataclasses.replace(snapshot.tasks, node=node))


def places(cycle: Cycle, gangs: Sequence[int]) -> dict[int, Place]:
    """What these gangs (rows) hold after the cycle; those that hold nothing are left out."""
    snapshot = placed_tasks(cycle, priced(cycle.encoded.snapshot))
    tasks, count = snapshot.tasks, snapshot.nodes.count
    asked = np.zeros(snapshot.gangs.count + 1, dtype=np.bool_)  # the last one: no gang
    asked[list(gangs)] = True
    rows = np.flatnonzero(asked[tasks.gang] & (tasks.node >= 0) & np.isin(cycle.state, _ALLOCATED))
    if not rows.size:
        return {}
    pair = tasks.gang[rows].astype(np.int64) * count + tasks.node[rows]
    pairs, back, pods = np.unique(pair, return_inverse=True, return_counts=True)
    gpus = np.bincount(back.reshape(-1), weights=held(snapshot, rows)[GPU], minlength=pairs.size)
    gang, node = pairs // count, pairs % count
    starts = np.flatnonzero(np.diff(gang, prepend=-1))
    ends = np.append(starts[1:], gang.size)
    names = cycle.encoded.names.nodes
    found: dict[int, Place] = {}
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        on = node[start:end].tolist()
        amounts = gpus[start:end].tolist()
        found[int(gang[start])] = Place(
            int(pods[start:end].sum()),
            float(sum(amounts)),
            tuple(names[n] for n in on),
            tuple(zip(on, amounts, strict=True)),
        )
    return found

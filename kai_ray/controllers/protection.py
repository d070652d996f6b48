"""Whose minimum runtime still stands between a waiting gang and room that it might take."""

from __future__ import annotations

import numpy as np

from kai_ray.cluster.clock import rfc3339
from kai_ray.encode import Encoded
from kai_ray.scheduler.snapshot import ALLOCATED, Snapshot, stated
from kai_ray.scheduler.victims.knobs import Evicting
from kai_ray.scheduler.victims.min_runtime import (
    preempt_min_runtime_s,
    protected_until_s,
    reclaim_min_runtime_s,
)


def protected_sentence(encoded: Encoded, gang: int, knobs: Evicting) -> str:
    """How many gangs could give way but for the minimum runtime, and when the first one may.

    Gangs of other queues are looked at as victims of a reclaim, those of the same queue with a
    lower priority as victims of a preemption. "" where nobody is protected.
    """
    snapshot = encoded.snapshot
    queues, gangs = snapshot.queues, snapshot.gangs
    if int(gangs.queue[gang]) < 0 or not _anybody_states(snapshot, knobs):
        return ""
    preempt = stated(queues.preempt_min_runtime_s, queues.count).tolist()
    reclaim = stated(queues.reclaim_min_runtime_s, queues.count).tolist()
    own = _path(snapshot, int(gangs.queue[gang]))
    until: list[float] = []
    for other in _holders(snapshot).tolist():
        path = _path(snapshot, int(gangs.queue[other]))
        if other == gang or not path:
            continue
        if path == own:
            if gangs.priority[other] >= gangs.priority[gang]:
                continue
            least = preempt_min_runtime_s(preempt, path, knobs.preempt_min_runtime_s)
        else:
            least = reclaim_min_runtime_s(
                reclaim, path, own, knobs.resolution, knobs.reclaim_min_runtime_s
            )
        end = protected_until_s(float(gangs.last_start_s[other]), least)
        if end > snapshot.now_s:
            until.append(end)
    if not until:
        return ""
    count = f"{len(until)} gang" + ("s" if len(until) > 1 else "")
    return (
        f"{count} may not be evicted for it yet (minimum runtime); the first may be from "
        f"{rfc3339(min(until))}"
    )


def _anybody_states(snapshot: Snapshot, knobs: Evicting) -> bool:
    queues = snapshot.queues
    columns = (queues.preempt_min_runtime_s, queues.reclaim_min_runtime_s)
    defaults = (knobs.preempt_min_runtime_s, knobs.reclaim_min_runtime_s)
    return any(defaults) or any(c is not None and np.nanmax(c, initial=0) > 0 for c in columns)


def _holders(snapshot: Snapshot) -> np.ndarray:
    """Preemptible gangs that hold room now."""
    tasks, gangs = snapshot.tasks, snapshot.gangs
    there = np.isin(tasks.state, [int(s) for s in ALLOCATED]) & (tasks.gang >= 0)
    holds = np.zeros(gangs.count, dtype=np.bool_)
    holds[tasks.gang[there]] = True
    return np.flatnonzero(holds & gangs.preemptible)


def _path(snapshot: Snapshot, queue: int) -> tuple[int, ...]:
    """Leaf first."""
    path: list[int] = []
    while queue >= 0:
        path.append(queue)
        queue = int(snapshot.queues.parent[queue])
    return tuple(path)

"""What every queue holds and asks for: the sums that fair share, order and capacity start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..gang_state import ready
from ..gpu.prices import held
from ..snapshot import ALLOCATED, QUEUE_RESOURCES, Floats, Queues, Snapshot, TaskState
from .tree import roll_up


@dataclass(frozen=True, slots=True)
class QueueBooks:
    """Sums per queue with all descendants, [3, Q]: millicores, bytes, GPUs."""

    allocated: Floats
    non_preemptible: Floats  # the part of `allocated` that belongs to non-preemptible gangs
    request: Floats  # `allocated` plus all pending pods


def queue_books(snapshot: Snapshot) -> QueueBooks:
    """Counts pods that are being bound, bound or running as allocated and pending ones as asked.

    Pods on their way from one node to another count as allocated: those that are not made again yet
    (`Snapshot.coming`), and those whose gang has to wait for others of it. Gated, releasing, stuck
    and finished pods count nowhere, nor do pods of other schedulers and of gangs whose queue does
    not exist.
    """
    tasks, gangs = snapshot.tasks, snapshot.gangs
    ours = np.flatnonzero(tasks.gang >= 0)
    ours = ours[gangs.queue[tasks.gang[ours]] >= 0]
    state, gang = tasks.state[ours], tasks.gang[ours]
    queue, amount = gangs.queue[gang], held(snapshot, ours)
    holds = np.isin(state, [int(s) for s in ALLOCATED])
    if gangs.moved is not None:
        waits = gangs.moved & ~ready(snapshot.subgroups, gangs.root, tasks)
        holds |= (state == TaskState.PENDING) & (tasks.nominated[ours] >= 0) & waits[gang]
    firm = holds & ~gangs.preemptible[gang]
    asked = holds | (state == TaskState.PENDING)
    parts = [np.where(rows, amount, 0.0) for rows in (holds, firm, asked)]
    if snapshot.coming is not None:
        coming = snapshot.coming[:, gangs.queue >= 0]
        queue = np.concatenate([queue, gangs.queue[gangs.queue >= 0]])
        fixed = np.where(gangs.preemptible[gangs.queue >= 0], 0.0, coming)
        more = (coming, fixed, coming)
        parts = [np.concatenate([p, m], axis=1) for p, m in zip(parts, more, strict=True)]
    return QueueBooks(*(_sum(snapshot.queues, queue, part) for part in parts))


def _sum(queues: Queues, queue: np.ndarray, amount: Floats) -> Floats:
    own = np.empty((QUEUE_RESOURCES, queues.count), dtype=np.float64)
    for r in range(QUEUE_RESOURCES):
        own[r] = np.bincount(queue, amount[r], minlength=queues.count)
    return roll_up(queues.parent, own)

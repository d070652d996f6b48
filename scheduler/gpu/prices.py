"""How many GPUs a request counts as in the books of queues.

Source: KAI 0.17: a request by GPU memory counts by the smallest card of the cluster while it waits,
by the largest one against a limit (so that no limit refuses what some node could hold within it),
and by the card of its node, in whole percent, once it has one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..snapshot import GPU, Bools, Floats, Ints, Snapshot
from .facts import UNKNOWN_CARD, GpuKind, Gpus


def by_memory(gpus: Gpus) -> Bools:
    """[C] classes that ask by GPU memory."""
    return gpus.kind == GpuKind.MEMORY


def priced(snapshot: Snapshot, mig_by_share: bool = False) -> Snapshot:
    """The snapshot with `queue_request` and `total` counted as they are while pods wait."""
    gpus = snapshot.gpus
    if gpus is None:
        return snapshot
    charge, total = snapshot.classes.queue_request, snapshot.total
    memory = by_memory(gpus)
    if memory.any():
        charge = charge.copy()
        charge[GPU, memory] = _devices_worth(gpus, gpus.least_mib)[memory]
    if mig_by_share and gpus.mig_share is not None:
        profiles = gpus.kind == GpuKind.MIG
        charge, total = charge.copy(), total.copy()
        charge[GPU, profiles] = gpus.mig_share[profiles]
        total[GPU] = max(total[GPU] - gpus.mig_excess, 0.0)
    if charge is snapshot.classes.queue_request:
        return snapshot
    return replace(snapshot, classes=replace(snapshot.classes, queue_request=charge), total=total)


def against_limits(snapshot: Snapshot) -> Floats:
    """[C] GPUs that a queue's limit and quota count for a pod that waits."""
    charge = snapshot.classes.queue_request[GPU]
    gpus = snapshot.gpus
    if gpus is None:
        return charge
    return np.where(by_memory(gpus), _devices_worth(gpus, gpus.most_mib), charge)


def on_nodes(gpus: Gpus, klass: int, card: Ints) -> Floats:
    """[N] GPUs that a pod by memory counts as on nodes with such cards (MiB)."""
    return int(gpus.devices[klass]) * _part(gpus.mib[klass : klass + 1], card)


def held(snapshot: Snapshot, rows: NDArray[np.intp]) -> Floats:
    """[3, len(rows)] what queues are charged for pods: by their node where they have one."""
    tasks, gpus = snapshot.tasks, snapshot.gpus
    klass = tasks.klass[rows]
    amount = snapshot.classes.queue_request[:, klass]
    if gpus is None or not by_memory(gpus).any():
        return amount
    node = tasks.node[rows]
    fixed = by_memory(gpus)[klass] & (node >= 0)
    card = _cards(gpus)[node[fixed]]
    amount[GPU, fixed] = gpus.devices[klass[fixed]] * _part(gpus.mib[klass[fixed]], card)
    return amount


def _cards(gpus: Gpus) -> Ints:
    return np.where(gpus.memory > 0, gpus.memory, UNKNOWN_CARD)


def _part(mib: Ints, card: Ints) -> Floats:
    """The part of a card, in whole percent, rounded up."""
    percent: Ints = (100 * mib + card - 1) // card
    return percent.astype(np.float64) / 100.0


def _devices_worth(gpus: Gpus, card: int) -> Floats:
    """[C] cards that the memory of all devices makes."""
    worth = np.zeros(gpus.kind.shape[0])
    if card > 0:
        worth += gpus.devices * gpus.mib / card
    return worth

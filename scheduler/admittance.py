"""Whether a gang may compete at all: its queue, the queue's rules for it, its own suspension."""

from __future__ import annotations

import numpy as np

from .reason import Reason
from .shares.tree import levels
from .snapshot import Bools, Codes, Queues, Snapshot


def queue_refusal(snapshot: Snapshot) -> Codes:
    """[G] the Reason why the gang starts nothing; NONE where the gang may compete."""
    queues, queue = snapshot.queues, snapshot.gangs.queue
    found = np.full(queue.shape[0], int(Reason.NONE), dtype=np.int32)
    if queues.count:
        at = np.maximum(queue, 0)
        found[paused(queues)[at]] = int(Reason.QUEUE_PAUSED)
        found[_has_children(queues)[at]] = int(Reason.QUEUE_NOT_A_LEAF)
    found[queue < 0] = int(Reason.QUEUE_NOT_FOUND)
    stated = snapshot.gangs.refusal
    if stated is not None:
        found = np.where(found == int(Reason.NONE), stated, found)
    return found


def paused(queues: Queues) -> Bools:
    """[Q] queues that are paused themselves or below one that is."""
    stopped = queues.paused.copy()
    for rows in levels(queues.parent)[1:]:
        stopped[rows] |= stopped[queues.parent[rows]]
    return stopped


def _has_children(queues: Queues) -> Bools:
    inner = np.zeros(queues.count, dtype=np.bool_)
    inner[queues.parent[queues.parent >= 0]] = True
    return inner

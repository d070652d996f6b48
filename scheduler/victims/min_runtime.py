"""How long a gang may run before others may take its room.

Source: KAI 0.17, plugin minruntime. Queues state the time for each kind of eviction; a queue
without one asks upwards. A gang that never started is not protected. What is protected is the
minimum of a gang: its surplus pods may go at any time. Consolidation and the eviction of stale
gangs do not ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum


class Resolution(Enum):
    """Where the time that protects against reclaim is looked up."""

    LCA = "lca"
    """From the child of the lowest common ancestor, on the victim's side, upwards."""
    QUEUE = "queue"
    """From the victim's own queue upwards."""


def preempt_min_runtime_s(
    stated: Sequence[float], path: tuple[int, ...], default_s: float
) -> float:
    """Seconds that protect a victim from its own queue.

    `stated` [Q] holds NaN where a queue says nothing; `path` is that of the victim, leaf first.
    """
    return _first(stated, path, default_s)


def reclaim_min_runtime_s(
    stated: Sequence[float],
    victim: tuple[int, ...],
    reclaimer: tuple[int, ...],
    resolution: Resolution,
    default_s: float,
) -> float:
    """Seconds that protect a victim from other queues; paths are leaf first.

    By the common ancestor only what the siblings of that level agreed on counts: settings further
    down the victim's side are ignored; where the trees differ, only the victim's top queue counts.
    """
    if resolution is Resolution.QUEUE:
        return _first(stated, victim, default_s)
    common = set(victim) & set(reclaimer)
    own = [queue for queue in victim if queue not in common]
    if not common:
        return _first(stated, tuple(own[-1:]), default_s)
    return _first(stated, (*own[-1:], *(queue for queue in victim if queue in common)), default_s)


def protected_until_s(last_start_s: float, min_runtime_s: float) -> float:
    """When the protection ends; -inf for a gang that never started (NaN) or without protection."""
    if last_start_s != last_start_s or min_runtime_s <= 0:
        return float("-inf")
    return last_start_s + min_runtime_s


def _first(stated: Sequence[float], path: tuple[int, ...], default_s: float) -> float:
    for queue in path:
        if stated[queue] == stated[queue]:
            return max(stated[queue], 0.0)
    return max(default_s, 0.0)

"""How evicting may be believed differently: the knobs of all evicting actions."""

from __future__ import annotations

from dataclasses import dataclass

from .min_runtime import Resolution


@dataclass(frozen=True, slots=True)
class Evicting:
    """Defaults are KAI 0.17's, but for what KAI does not know."""

    max_moved_gangs: int | None = 16
    """Gangs that one consolidation may move; 0 = never consolidate, None = no bound."""
    moving_is_taking: bool = False
    """Whether reclaim counts a pod as taken that finds another place (KAI: the opposite of
    allow-consolidating-reclaim)."""
    saturation_multiplier: float = 1.0  # larger = reclaim is refused earlier; below 1 counts as 1
    staleness_grace_s: float = 60.0  # for gangs that state none; negative = never evict
    preempt_min_runtime_s: float = 0.0  # where no queue on the path states one
    reclaim_min_runtime_s: float = 0.0
    resolution: Resolution = Resolution.LCA
    allowance: int | None = None
    """Pods that may be evicted in this cycle: what a rate limit leaves. A set of victims may
    overdraw what is left, so that a large gang is served too; then the next one waits."""


DEFAULT = Evicting()

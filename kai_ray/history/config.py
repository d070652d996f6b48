"""Where usage comes from, and how it counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kai_ray.history.prometheus import METRICS
from kai_ray.history.window import UsageSettings


@dataclass(frozen=True, slots=True)
class UsageConfig:
    """`file` None: the record lives as long as the process. `prometheus`: its address, instead."""

    settings: UsageSettings = field(default_factory=UsageSettings)
    file: Path | None = None
    prometheus: str = ""
    metrics: tuple[tuple[str, str], ...] = tuple(METRICS.items())
    stale_after_s: float = 300.0
    resolution_s: float = 60.0
    timeout_s: float = 10.0

"""What a process that runs on a cluster has to be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kai_ray.controllers import ControlConfig
from kai_ray.podgrouper.workload import Settings
from kai_ray.sight.notify import NotifyConfig

#: What can run in a process of its own.
COMPONENTS = ("podgrouper", "scheduler", "binder")


@dataclass(frozen=True, slots=True)
class ManagerConfig:
    """Which parts run here, and how they are set."""

    control: ControlConfig = field(default_factory=ControlConfig)
    podgrouper: Settings = field(default_factory=Settings)
    components: tuple[str, ...] = COMPONENTS
    """Of `COMPONENTS`. A scheduler without a binder beside it hands its decisions over as
    BindRequest objects, which a binder elsewhere carries out."""
    only_shard: str | None = None
    """The one node pool that is served here; None = every SchedulingShard."""
    max_age_s: float = 30.0
    """No decision on older news: while a watch that matters says nothing for longer, all waits."""
    resync_s: float = 600.0
    """How often caches are compared with a fresh list, for what a watch may have missed."""
    writers: tuple[int, int] = (4, 16)
    """Writes under way at a time: statuses and events; PodGroups and binds, which pods wait for."""
    state: Path | None = None
    """Folder of what outlives the process: the history, and usage over time."""
    history: Path | None = None
    """The history file, where it is not in that folder; both None: no history is kept."""
    notify: NotifyConfig = field(default_factory=NotifyConfig)
    """Channels and hosts that people may be told through."""

    def __post_init__(self) -> None:
        wrong = [c for c in self.components if c not in COMPONENTS]
        if wrong or not self.components:
            raise ValueError(f"components are of {', '.join(COMPONENTS)}, not {', '.join(wrong)}")

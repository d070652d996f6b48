"""What the controllers have to be told about the installation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from kai_ray.api import labels
from kai_ray.controllers.drainer import Drainer
from kai_ray.encode import EncodeConfig
from kai_ray.gpu.reservation_pods import Making
from kai_ray.history.config import UsageConfig


@dataclass(frozen=True, slots=True)
class ControlConfig:
    """Defaults suit a real cluster; the embedded one takes a shorter `period_s`."""

    encode: EncodeConfig = field(default_factory=EncodeConfig)
    """Scheduler names, node pool, thresholds of what is read."""
    queue_label: str = labels.QUEUE
    usage: UsageConfig | None = None
    """How past usage counts; None = not at all."""
    period_s: float = 1.0
    """Least time between two cycles; changes in between are decided together."""
    bind_requests: Literal["never", "always"] = "never"
    """Whether every bind goes through a BindRequest object, for KAI's tools."""
    reservations: Making = field(default_factory=Making)
    """How pods are made that keep a shared card."""
    reservation_wait_s: float = 40.0
    """How long a pod waits for the devices it was given before its place is given back."""
    withdraw_after_s: float = 10.0
    """How long a part of a card may be claimed by a scheduler that does not bind its pod."""
    identity: str = ""
    """A name that no other scheduler has; "" = made up anew at every start."""
    bind_role: Literal["both", "decide", "carry out"] = "both"
    """With BindRequests: whether they are made here, worked off here, or both."""
    bind_every_pool: bool = False
    """Whether BindRequests of all node pools are worked off, not only those of `encode`."""
    on_bound: Callable[[float], None] | None = None
    """Who is told of each bind how many seconds its request took."""
    on_usage_query: Callable[[float], None] | None = None
    """Who is told how many seconds Prometheus took for each answer about past usage."""
    bind_tries: int = 3
    """Tries of one bind while its place is kept; then the place is given back."""
    staleness_grace_s: float = 60.0
    """How long a started gang may run below its minimum; negative = for ever."""
    hold_s: float = 60.0
    """How long room that others left for a gang is kept for it; longer where pods end slowly."""
    max_eviction_grace_s: float = 3600.0
    """The most time to save its work that a gang may ask for before it is evicted."""
    drainer: Drainer | None = None
    """Who asks Ray to empty workers before they go; None = nobody."""
    drain_s: float = 30.0
    """How long Ray may take to empty a worker that leaves, where nobody gives it longer."""
    evictions_per_minute: int | None = None
    """Pods that may be evicted in any minute; a gang that begins within it goes whole."""
    elastic_settle_s: float = 10.0
    """How long room must have been left over before workloads are lent some of it."""
    elastic_period_s: float = 60.0
    """Least time between two raises of one workload: each makes it gather its workers anew."""
    rejections: int = 3
    """Pods that a node may reject within `rejection_window_s` before it is quarantined."""
    rejection_window_s: float = 300.0
    quarantine_s: float = 600.0
    repeat_s: float = 5.0
    """Least time between two texts of one condition while its reason stays the same."""
    status_batch: int = 256
    """Status writes sent side by side before other work gets its turn."""

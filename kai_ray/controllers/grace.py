"""How long a gang has to save its work before it goes: its own word, within its queue's bounds.

A workload says so by annotation; its PodGroup carries it. Without one its queue's holds, or that of
the nearest queue above. The queue's maximum, and in the end the installation's, bounds both.
"""

from __future__ import annotations

from kai_ray.api import labels as names
from kai_ray.api.durations import parse_duration
from kai_ray.cluster.port import Object
from kai_ray.controllers.config import ControlConfig
from kai_ray.encode.queue_policy import QueuePolicy
from kai_ray.scheduler.reason import Reason

#: Stale gangs have had their grace and make no progress; what a queue ends at a time that was known
#: is told beforehand (queue_deadlines.py, idle/).
_AT_ONCE = (
    Reason.STALE_GANG,
    Reason.MAX_RUN_TIME_REACHED,
    Reason.QUEUE_DRAINED,
    Reason.GPUS_IDLE,
)


def grace_s(group: Object, policy: QueuePolicy, config: ControlConfig) -> float:
    """Seconds between a notice and the eviction, 0 for none."""
    own = stated_s(group)
    wanted = own if own is not None else policy.eviction_grace_s
    most = config.max_eviction_grace_s
    if policy.max_eviction_grace_s is not None:
        most = min(most, policy.max_eviction_grace_s)
    return max(0.0, min(wanted or 0.0, most))


def given_notice(reason: Reason) -> bool:
    """Whether gangs that leave for this reason get time from now on."""
    return reason not in _AT_ONCE


def stated_s(obj: Object) -> float | None:
    """What the object itself asks for; what cannot be read is not said."""
    text = (obj["metadata"].get("annotations") or {}).get(names.EVICTION_GRACE)
    found = parse_duration(text) if isinstance(text, str) else None
    return found if found is not None and found >= 0 else None


def wants_signal(*objects: Object) -> bool:
    """Whether a workload asks to be told by SIGTERM: any of its objects may say so."""
    return any(
        (o["metadata"].get("annotations") or {}).get(names.EVICTION_SIGNAL) == "SIGTERM"
        for o in objects
    )

"""What a skipped owner hands down beside its labels: the defaults configured for its kind."""

from __future__ import annotations

from dataclasses import replace

from kai_ray.api import labels as keys

from .fields import PREEMPTIBILITIES, kind_defaults, priority_exists
from .values import Object, labels, metadata
from .workload import Workload


def with_kind_defaults(w: Workload, lower: Object, upper: Object) -> Object:
    """`lower` with labels for what is configured for `upper`'s kind, where it has none."""
    if w.settings.defaults_config_map is None:
        return lower
    own = labels(lower)
    given: dict[str, str] = {}
    for entry, _ in kind_defaults(replace(w, subject=upper, owners=(upper,))):
        priority, preemptibility = entry.get("priorityName"), entry.get("preemptibility")
        if priority_exists(w, priority):
            given.setdefault(keys.PRIORITY_CLASS, str(priority))
        if preemptibility in PREEMPTIBILITIES:
            given.setdefault(keys.PREEMPTIBILITY, str(preemptibility))
    if not given:
        return lower
    meta = metadata(lower)
    return {**lower, "metadata": {**meta, "labels": {**given, **own}}}

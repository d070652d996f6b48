"""What a PodGroup says about itself beyond size and queue: its user, its type, whether it may run.

The podgrouper copies labels and annotations of the workload, so all of these can be written there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kai_ray.api import labels as names

from .problems import Malformed

#: Types of workloads, with the words that mean the same.
TYPES = ("train", "build", "inference")
SYNONYMS = {
    "training": "train",
    "interactive": "build",
    "interactive-preemptible": "build",
    "build-preemptible": "build",
    "serving": "inference",
}
#: Who owns what names no user.
NOBODY = "<none>"
_LONGEST = 253


class Traits(NamedTuple):
    user: str = NOBODY
    type: str = ""  # "" = not said: the priority class tells
    suspended: bool = False
    ended: bool = False  # it has used up the maximum run time of its queue


SILENT = Traits()


def read(meta: dict[str, Any]) -> Traits:
    """Raises Malformed."""
    labels: dict[str, Any] = meta.get("labels") or {}
    annotations: dict[str, Any] = meta.get("annotations") or {}
    if not labels and not annotations:
        return SILENT
    user = labels.get(names.USER) or annotations.get(names.USER) or NOBODY
    raw = labels.get(names.WORKLOAD_TYPE) or annotations.get(names.WORKLOAD_TYPE) or ""
    return Traits(
        str(user)[:_LONGEST],
        workload_type(raw, f"metadata.labels[{names.WORKLOAD_TYPE}]") if raw else "",
        annotations.get(names.SUSPENDED) == "true",
        bool(annotations.get(names.MAX_RUN_TIME_REACHED)),
    )


def workload_type(raw: Any, field: str) -> str:
    """Raises Malformed."""
    found = SYNONYMS.get(raw, raw) if isinstance(raw, str) else ""
    if found not in TYPES:
        raise Malformed(field, f"{str(raw)[:80]!r} is none of {', '.join(TYPES)}")
    return found


def type_of_class(priority_class: str) -> str:
    """The type of a gang that does not name one."""
    found = SYNONYMS.get(priority_class, priority_class)
    return found if found in TYPES else "train"

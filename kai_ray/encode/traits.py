"""What a PodGroup says about itself beyond size and queue: its user, its type, whether it may run.

The podgrouper copies labels and annotations of the workload, so all of these can be written there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kai_ray.api import labels as names
from kai_ray.cluster.port import Object

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
    idle: bool = False  # it was sent away because it did not use its GPUs


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
        _suspended(annotations),
        bool(annotations.get(names.MAX_RUN_TIME_REACHED)),
        bool(annotations.get(names.IDLE_EVICTED)),
    )


def is_suspended(obj: Object) -> bool:
    """Whether a PodGroup or workload says that its pods are to wait until it is resumed."""
    notes = _part(obj, "annotations")
    return isinstance(notes, dict) and _suspended(notes)


def says_suspended(owner: Object) -> bool:
    """Whether an owner of pods says it of its own accord: the ReplicaSet of a Deployment keeps
    copies of annotations that the Deployment may have lost since."""
    references = _part(owner, "ownerReferences")
    copied = isinstance(references, list) and any(
        isinstance(r, dict) and r.get("controller") and r.get("kind") == "Deployment"
        for r in references
    )
    return is_suspended(owner) and not copied


def _part(obj: Object, name: str) -> Any:
    """A part of an object's metadata, which may be of any form."""
    meta = obj.get("metadata")
    return meta.get(name) if isinstance(meta, dict) else None


def _suspended(annotations: dict[str, Any]) -> bool:
    return annotations.get(names.SUSPENDED) == "true"


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

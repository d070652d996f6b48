"""Annotations that stand where nobody reads them: told, so that nobody counts on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kai_ray.api import labels as keys

from .groups import Member, SubGroup
from .topologies import stated_topology
from .values import Object, annotations_of, kind_of
from .workload import Workload

_SEGMENT_LEVELS = (keys.SEGMENT_TOPOLOGY_REQUIRED, keys.SEGMENT_TOPOLOGY_PREFERRED)
_SEGMENT_KEYS = (keys.SEGMENT_SIZE, *_SEGMENT_LEVELS)
#: (kind, role of the template or "" for the workload) -> segment annotations that are read there.
_READ = {
    ("PyTorchJob", ""): _SEGMENT_LEVELS,
    ("PyTorchJob", "worker"): _SEGMENT_KEYS,
    ("LeaderWorkerSet", ""): _SEGMENT_KEYS,
    ("LeaderWorkerSet", "workers"): _SEGMENT_KEYS,
}


def unread_notes(
    w: Workload, members: Iterable[Member], sub_groups: Iterable[SubGroup]
) -> Iterator[str]:
    """What is asked of segments and topologies where it cannot be had."""
    kind, constrained = kind_of(w.subject)[1], {s.name for s in sub_groups if s.topology}
    places: list[tuple[str, str, Object]] = [("", f"the {kind}", w.subject)]
    for member in members:
        words = f"the template of {member.role}"
        places.append((str(member.role).lower(), words, member.template))
        if stated_topology(member.template).required and member.subgroup not in constrained:
            yield (
                f"annotation {keys.TOPOLOGY_REQUIRED} of {words} is ignored: a {kind} is kept "
                f"together as a whole, by the annotation of the {kind} itself"
            )
    named = any(annotations_of(obj).get(keys.TOPOLOGY) for _, _, obj in places)
    for role, words, obj in places:
        stated = annotations_of(obj)
        if keys.SEGMENT_TOPOLOGY_REQUIRED in stated and not named:
            yield (
                f"annotation {keys.SEGMENT_TOPOLOGY_REQUIRED} of {words} is ignored: name the "
                f"Topology of that level in the annotation {keys.TOPOLOGY}"
            )
        for key in _SEGMENT_KEYS:
            if key in stated and key not in _READ.get((kind, role), ()):
                yield (
                    f"annotation {key} of {words} is ignored: segments are made of the workers of "
                    "a PyTorchJob (annotation of their template) and of LeaderWorkerSets"
                )

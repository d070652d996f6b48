"""Which object an event is about, and whether it says anything that groups are derived from."""

from __future__ import annotations

from collections.abc import Iterable

from kai_ray.api import labels as keys

from .chains import owner_reference_of
from .registry import kind_key
from .values import (
    GroupError,
    Object,
    annotations_of,
    group_of,
    metadata,
    name_of,
    namespace_of,
)
from .writer import has_node

#: Parts of a status that groups are derived from, by kind; other status changes mean nothing.
_STATUS_READ = {
    "RayJob": ("rayClusterName",),
    "RayService": ("activeServiceStatus", "pendingServiceStatus"),
    "JobSet": ("replicatedJobsStatus",),
    "Job": ("succeeded", "conditions"),
    "SparkApplication": ("sparkApplicationId",),
    **dict.fromkeys(
        ("PyTorchJob", "TFJob", "XGBoostJob", "JAXJob", "PaddleJob", "MPIJob"), ("replicaStatuses",)
    ),
    "PodGang": (),
}


def object_key(group: str, kind: str, namespace: str, name: str) -> str:
    return f"{group}/{kind}|{namespace}|{name}"


def key_for(obj: Object) -> str:
    group, kind = kind_key(obj)
    return object_key(group, kind, namespace_of(obj), name_of(obj))


def reference_keys(pod: Object) -> Iterable[str]:
    try:
        reference = owner_reference_of(pod)
    except GroupError:
        return (key_for(pod),)
    if reference is None:
        return (object_key("", "Pod", namespace_of(pod), name_of(pod)),)
    group, kind = group_of(str(reference.get("apiVersion") or "")), str(reference.get("kind") or "")
    return (object_key(group, kind, namespace_of(pod), str(reference.get("name") or "")),)


def stamped_groups(pod: Object) -> Iterable[str]:
    found = annotations_of(pod).get(keys.POD_GROUP)
    return (f"{namespace_of(pod)}/{found}",) if found else ()


def oldest(pods: list[Object]) -> Object | None:
    """The pod that speaks for an unknown owner: the same one whichever came last."""
    return min(
        pods,
        key=lambda p: (metadata(p).get("creationTimestamp") or "", name_of(p)),
        default=None,
    )


def says_the_same(old: Object, new: Object) -> bool:
    """Whether nothing that groups are derived from has changed."""
    if old.get("spec") != new.get("spec"):
        return False
    before, after = metadata(old), metadata(new)
    fields = ("labels", "annotations", "ownerReferences", "deletionTimestamp", "uid")
    if any(before.get(f) != after.get(f) for f in fields):
        return False
    parts = _STATUS_READ.get(str(new.get("kind")), ())
    was, now = old.get("status") or {}, new.get("status") or {}
    return all(was.get(p) == now.get(p) for p in parts)


def pod_says_the_same(old: Object, new: Object) -> bool:
    before, after = metadata(old), metadata(new)
    fields = ("labels", "annotations", "ownerReferences", "deletionTimestamp")
    if any(before.get(f) != after.get(f) for f in fields):
        return False
    return has_node(old) == has_node(new)


#: Parts of pods that name neither queues nor priority classes, and are long.
_LONG_PARTS = ("containers", "initContainers", "volumes", "status", "managedFields")


def mentions(workload: Object, name: str) -> bool:
    """Whether a workload has this text anywhere as a value: it may name a queue or a class."""
    open_: list[object] = [workload]
    while open_:
        found = open_.pop()
        if isinstance(found, dict):
            open_ += [part for key, part in found.items() if key not in _LONG_PARTS]
        elif isinstance(found, list):
            open_ += found
        elif found == name:
            return True
    return False


def queue_default_of(queue: Object | None) -> tuple[str, object]:
    """What of a Queue decides the class of workloads that name none: its own word, its parent."""
    if queue is None or queue.get("kind") != "Queue":
        return "", None
    parent = (queue.get("spec") or {}).get("parentQueue")
    return annotations_of(queue).get(keys.DEFAULT_PRIORITY_CLASS, ""), parent

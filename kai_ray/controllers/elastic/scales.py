"""The parts of a workload whose size may be changed: how large now, within which bounds.

| kind | part | bounds | taken as elastic |
|---|---|---|---|
| PyTorchJob | `Worker` | `elasticPolicy.minReplicas`, `maxReplicas` | where it has both and no `metrics` (those give it to an HPA) |
| RayCluster | a worker group | its `minReplicas`, `maxReplicas` | by annotation, without Ray's autoscaler |
| Job | its pods | `kai.scheduler/max-parallelism`, and the completions that are left | by that annotation |

Annotation `kai.scheduler/elastic` on the workload, "true" or "false", says it for any of them.
"""  # noqa: E501

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kai_ray.api import labels as names
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import Object, Resource
from kai_ray.cluster.suspension import is_suspended
from kai_ray.controllers.suspend import has_ended

WORKER = "Worker"
_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Scale:
    """One part. Sizes count pods."""

    part: str
    now: int
    least: int
    most: int


def scales_of(resource: Resource, workload: Object) -> list[Scale]:
    """What may be resized; nothing of a workload that is suspended, ending or not elastic."""
    reader = _READERS.get(resource)
    meta = workload["metadata"]
    if reader is None or meta.get("deletionTimestamp") or has_ended(workload):
        return []
    if is_suspended(resource, workload):
        return []
    stated = (meta.get("annotations") or {}).get(names.ELASTIC)
    if stated == "false":
        return []
    try:
        found = reader(workload, stated == "true")
    except (TypeError, ValueError, AttributeError):
        return []  # the podgrouper says what is wrong with it
    return [scale for scale in found if 0 <= scale.least <= scale.most]


def resized(resource: Resource, workload: Object, part: str, pods: int) -> Object:
    """A copy with another size."""
    wanted = copy.deepcopy(workload)
    spec = wanted["spec"]
    if resource == kinds.PYTORCH_JOB:
        spec["pytorchReplicaSpecs"][WORKER]["replicas"] = pods
    elif resource == kinds.JOB:
        spec["parallelism"] = pods
    else:
        for group in spec["workerGroupSpecs"]:
            if group.get("groupName") == part:
                group["replicas"] = pods
    return wanted


def without_pods(workload: Object, part: str, pods: Sequence[str]) -> Object:
    """A copy of a RayCluster that names the workers to go, as its autoscaler would."""
    wanted = copy.deepcopy(workload)
    for group in wanted["spec"]["workerGroupSpecs"]:
        if group.get("groupName") == part:
            strategy = group.get("scaleStrategy") or {}
            named = {*(strategy.get("workersToDelete") or ()), *pods}
            group["scaleStrategy"] = {**strategy, "workersToDelete": sorted(named)}
    return wanted


def part_of(resource: Resource, pod: Object) -> str | None:
    """The part that a pod of the workload belongs to; None for heads, masters, submitters."""
    labels = pod["metadata"].get("labels") or {}
    if resource == kinds.PYTORCH_JOB:
        return WORKER if labels.get(names.TRAINING_REPLICA_TYPE, "").lower() == "worker" else None
    if resource == kinds.RAY_CLUSTER:
        return labels.get(names.RAY_GROUP) if labels.get(names.RAY_NODE_TYPE) == "worker" else None
    return ""


def index_of(resource: Resource, pod: Object) -> int | None:
    """The number by which the operator takes pods away from the end; None: it has no such order."""
    if resource != kinds.PYTORCH_JOB:
        return None
    text = (pod["metadata"].get("labels") or {}).get(names.TRAINING_REPLICA_INDEX, "")
    return int(text) if text.isdigit() else None


def _pytorch(job: Object, stated: bool) -> list[Scale]:
    policy = job["spec"].get("elasticPolicy") or {}
    least, most = policy.get("minReplicas"), policy.get("maxReplicas")
    worker = (job["spec"].get("pytorchReplicaSpecs") or {}).get(WORKER)
    if worker is None or least is None or most is None or (policy.get("metrics") and not stated):
        return []
    return [Scale(WORKER, _size(worker.get("replicas"), 1), int(least), int(most))]


def _ray(cluster: Object, stated: bool) -> list[Scale]:
    spec = cluster["spec"]
    if not stated or spec.get("enableInTreeAutoscaling") or _of_a_service(cluster):
        return []
    return [
        Scale(
            group["groupName"],
            _size(group.get("replicas"), 0),
            _size(group.get("minReplicas"), 0),
            _size(group.get("maxReplicas"), _LARGEST),
        )
        for group in spec.get("workerGroupSpecs") or ()
        if _size(group.get("numOfHosts"), 1) == 1 and not group.get("suspend")
    ]


def _of_a_service(cluster: Object) -> bool:
    """A RayService writes its cluster's sizes itself."""
    owners = cluster["metadata"].get("ownerReferences") or ()
    return any(o.get("kind") == kinds.RAY_SERVICE.kind for o in owners)


def _job(job: Object, stated: bool) -> list[Scale]:
    meta, spec = job["metadata"], job["spec"]
    annotations = meta.get("annotations") or {}
    text = annotations.get(names.MAX_PARALLELISM)
    if text is None or any(o.get("controller") for o in meta.get("ownerReferences") or ()):
        return []
    most, now = int(text), _size(spec.get("parallelism"), 1)
    if spec.get("completions") is not None:
        done = (job.get("status") or {}).get("succeeded") or 0
        most = min(most, spec["completions"] - done)
    floor = annotations.get(names.MIN_MEMBER) or annotations.get(names.BATCH_MIN_MEMBER) or "1"
    least = min(int(floor), now)
    return [Scale("", now, least, max(most, least))]


def _size(value: Any, default: int) -> int:
    return default if value is None else int(value)


_READERS: dict[Resource, Callable[[Object, bool], list[Scale]]] = {
    kinds.PYTORCH_JOB: _pytorch,
    kinds.RAY_CLUSTER: _ray,
    kinds.JOB: _job,
}
ELASTIC_KINDS: tuple[Resource, ...] = tuple(_READERS)

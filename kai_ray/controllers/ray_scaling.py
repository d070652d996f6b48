"""A RayCluster without some of its workers, by the contract of KubeRay's autoscaler.

Where `enableInTreeAutoscaling` is set, `replicas` is no longer the user's number but the
autoscaler's, and KubeRay makes whatever is missing from it. So a worker that has to go is named in
`scaleStrategy.workersToDelete`, and its group shrinks by one, never below `minReplicas`. A replica
of several hosts counts once. Without the autoscaler the number is the user's and stays.

Source: KubeRay 1.6, reconcilePods; Ray's providers for KubeRay write the same two fields.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from kai_ray.api import labels as names
from kai_ray.cluster.port import Object


def without_workers(
    cluster: Object, leaving: Sequence[Object], there: Callable[[str, str], bool]
) -> Object | None:
    """The cluster to write, None where nothing of it has to change.

    `leaving` are pods of it; `there(namespace, name)` says whether a pod still exists.
    """
    if not (cluster.get("spec") or {}).get("enableInTreeAutoscaling"):
        return None
    by_group: dict[str, list[Object]] = {}
    for pod in leaving:
        group = (pod["metadata"].get("labels") or {}).get(names.RAY_GROUP, "")
        by_group.setdefault(group, []).append(pod)
    wanted = copy.deepcopy(cluster)
    namespace = wanted["metadata"].get("namespace") or ""
    changed = False
    for group in wanted["spec"].get("workerGroupSpecs") or ():
        pods = by_group.get(group.get("groupName") or "")
        if pods:
            changed |= _shrink(group, pods, lambda name: there(namespace, name))
    return wanted if changed else None


def _shrink(group: Object, pods: Sequence[Object], there: Callable[[str], bool]) -> bool:
    strategy = group.get("scaleStrategy") or {}
    known: list[str] = [n for n in strategy.get("workersToDelete") or () if there(n)]
    fresh = [p for p in pods if p["metadata"]["name"] not in known]
    if not fresh:
        return False
    asked = group.get("replicas")
    least = group.get("minReplicas") or 0
    size = least if asked is None else asked
    if group.get("maxReplicas") is not None:
        size = min(size, group["maxReplicas"])
    group["replicas"] = max(least, size - len({_unit(p) for p in fresh}))
    listed = [*known, *sorted(p["metadata"]["name"] for p in fresh)]
    group["scaleStrategy"] = {**strategy, "workersToDelete": listed}
    return True


def _unit(pod: Object) -> str:
    """Hosts of one replica go together and count once."""
    labels = pod["metadata"].get("labels") or {}
    return labels.get(names.RAY_REPLICA_NAME) or pod["metadata"]["name"]

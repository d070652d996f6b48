"""RayService: a group for each of its RayClusters, so that an upgrade never mixes old and new."""

from __future__ import annotations

from kai_ray.podgrouper.groups import Group
from kai_ray.podgrouper.values import (
    GroupError,
    Object,
    dig,
    name_of,
    owner_references,
    text,
    uid_of,
)
from kai_ray.podgrouper.workload import UNKNOWN_NAME, Rule, Workload

from .ray_cluster import cluster_group, find_cluster, place_ray_pod, planned_cluster


def ray_service_groups(w: Workload) -> list[Group]:
    if w.planning:
        spec = dig(w.subject, "spec.rayClusterConfig")
        if not isinstance(spec, dict):
            raise GroupError("spec.rayClusterConfig", "is missing", "write the cluster there")
        name = f"{name_of(w.subject)}-{UNKNOWN_NAME}"
        cluster = planned_cluster(spec, name, w.subject)
        return [cluster_group(w, cluster, at="spec.rayClusterConfig")]
    clusters = _clusters(w)
    if not clusters and w.pod is not None:
        raise GroupError(
            "status.activeServiceStatus.rayClusterName",
            "names no RayCluster that can be read",
            "wait until the operator has made it",
        )
    return [cluster_group(w, cluster) for cluster in clusters]


def _clusters(w: Workload) -> list[Object]:
    """All clusters of the service: those it owns, and those that its status and its pods name."""
    found: dict[str, Object] = {}
    version = str(w.subject.get("apiVersion") or "ray.io/v1")
    for cluster in w.reader.owned(version, "RayCluster", uid_of(w.subject)):
        found[name_of(cluster)] = cluster
    names = [name_of(o) for o in w.owners if o.get("kind") == "RayCluster"]
    if w.pod is not None:
        names += [
            str(r.get("name"))
            for r in owner_references(w.pod)
            if isinstance(r, dict) and r.get("kind") == "RayCluster"
        ]
    for status in ("activeServiceStatus", "pendingServiceStatus"):
        names.append(text(w.subject, f"status.{status}.rayClusterName"))
    for name in names:
        if name and name not in found:
            cluster = find_cluster(w, name)
            if cluster is not None:
                found[name] = cluster
    return [found[name] for name in sorted(found)]


RULE = Rule(ray_service_groups, place_ray_pod)

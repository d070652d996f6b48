"""RayJob: a group for each attempt, named after its RayCluster; the submitter is a late member.

With a clusterSelector the cluster belongs to somebody else: only the submitter is grouped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kai_ray.api import operator_defaults as kuberay
from kai_ray.podgrouper.build import build_group, soft_template
from kai_ray.podgrouper.groups import Group, Member
from kai_ray.podgrouper.values import (
    GroupError,
    Object,
    dig,
    mapping,
    metadata,
    name_of,
    text,
    uid_of,
)
from kai_ray.podgrouper.workload import UNKNOWN_NAME, Place, Rule, Workload

from .ray_cluster import cluster_group, find_cluster, place_ray_pod, planned_cluster

#: Short enough for a warning at admission.
LAST_RESORT = (
    "spec.shutdownAfterJobFinishes is not true, so KubeRay cannot suspend it: if it has to give "
    "way, it does so after all others and its attempt ends; another begins by itself. "
    "Set it to true to be suspended and resumed"
)
MODES = ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode")


def submission_mode(job: Object) -> str:
    mode = text(job, "spec.submissionMode") or MODES[0]
    if mode not in MODES:
        raise GroupError("spec.submissionMode", f"is {mode!r}", f"write one of {', '.join(MODES)}")
    return mode


def submitter_template(job: Object) -> Object:
    """The user's template of the submitter pod, else the operator's."""
    own = soft_template(job, "spec.submitterPodTemplate")
    if own:
        return own
    return {
        "spec": {
            "containers": [
                kuberay.container(kuberay.RAY_SUBMITTER_CONTAINER, kuberay.RAY_SUBMITTER_RESOURCES)
            ]
        }
    }


def ray_job_groups(w: Workload) -> list[Group]:
    job = w.subject
    mode = submission_mode(job)
    submitter = submitter_template(job) if mode == "K8sJobMode" else None
    if mapping(job, "spec.clusterSelector"):
        return _only_submitter(w, submitter)
    sidecar = (
        kuberay.container(kuberay.RAY_SUBMITTER_CONTAINER, kuberay.RAY_SUBMITTER_RESOURCES)
        if mode == "SidecarMode"
        else None
    )
    cluster, at = _attempt(w)
    if cluster is None:
        return []
    group = cluster_group(w, cluster, at=at, submitter=submitter, sidecar=sidecar)
    return [_with_last_resort(job, group)]


def _with_last_resort(job: Object, group: Group) -> Group:
    """Says beforehand that KubeRay will not let us suspend it (controllers/attempts.py)."""
    if not group.preemptible or dig(job, "spec.shutdownAfterJobFinishes") is True:
        return group
    return replace(group, notes=(*group.notes, LAST_RESORT))


def _only_submitter(w: Workload, submitter: Object | None) -> list[Group]:
    if submitter is None:
        return []
    return [build_group(w, members=(Member("submitter", submitter, 1),))]


def _attempt(w: Workload) -> tuple[Object | None, str]:
    """(the attempt's RayCluster, the field that its spec stands in)."""
    job = w.subject
    if w.planning:
        spec = dig(job, "spec.rayClusterSpec")
        if not isinstance(spec, dict):
            raise GroupError(
                "spec.rayClusterSpec",
                "is missing",
                "write it, or select a cluster in spec.clusterSelector",
            )
        name = f"{name_of(job)}-{UNKNOWN_NAME}"
        return planned_cluster(spec, name, job), "spec.rayClusterSpec"
    name = text(job, "status.rayClusterName") or _newest_cluster(w)
    for owner in w.owners:
        if owner.get("kind") == "RayCluster":
            name = name_of(owner)
    cluster = find_cluster(w, name) if name else None
    if cluster is None and w.pod is not None:
        raise GroupError(
            "status.rayClusterName",
            f"names no RayCluster that can be read ({name or 'missing'})",
            "wait until the operator has made it",
        )
    return cluster, "spec"


def _newest_cluster(w: Workload) -> str:
    """The last cluster made for the job: its status may be behind."""
    version = str(w.subject.get("apiVersion") or "")
    owned = w.reader.owned(version, "RayCluster", uid_of(w.subject))
    return name_of(max(owned, key=_age, default={}))


def _age(obj: Object) -> tuple[str, str]:
    return str(metadata(obj).get("creationTimestamp") or ""), name_of(obj)


def place_job_pod(w: Workload, pod: Object, groups: Sequence[Group]) -> Place:
    if not groups:
        raise GroupError("status.rayClusterName", "is missing", "wait for the operator")
    if not groups[0].sub_groups:
        return Place(groups[0].name)
    return place_ray_pod(w, pod, groups)


RULE = Rule(ray_job_groups, place_job_pod)

"""The Jobs of a JobSet (v0.12): defaults, names, labels and annotations."""

from __future__ import annotations

import hashlib

from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object

from .world import own_copy, owner_ref

PREFIX = "jobset.sigs.k8s.io/"
RESTARTS = PREFIX + "restart-attempt"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def with_defaults(spec: Object) -> Object:
    """The spec as JobSet's webhook completes it. The result is the caller's own."""
    out = own_copy(spec)
    out.setdefault("suspend", False)
    out.setdefault("successPolicy", {}).setdefault("operator", "All")
    out.setdefault("startupPolicy", {}).setdefault("startupPolicyOrder", "AnyOrder")
    network = out.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    for group in out.get("replicatedJobs") or ():
        group.setdefault("groupName", "default")
        if group.get("replicas") is None:
            group["replicas"] = 1
        job = group["template"].setdefault("spec", {})
        job.setdefault("completionMode", "Indexed")
        job["template"]["spec"].setdefault("restartPolicy", "OnFailure")
    return out


def subdomain(jobset: Object, spec: Object) -> str:
    return spec["network"].get("subdomain") or jobset["metadata"]["name"]


def headless_service(jobset: Object, spec: Object) -> Object:
    meta = jobset["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": subdomain(jobset, spec),
            "namespace": meta["namespace"],
            "ownerReferences": [owner_ref(R.JOB_SET, jobset)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": spec["network"]["publishNotReadyAddresses"],
            "selector": {PREFIX + "jobset-name": meta["name"]},
        },
    }


def job_name(jobset: Object, group: str, index: int) -> str:
    return f"{jobset['metadata']['name']}-{group}-{index}"


def build_job(jobset: Object, spec: Object, group: Object, index: int, restarts: int) -> Object:
    meta = jobset["metadata"]
    name = job_name(jobset, group["name"], index)
    marks = _marks(jobset, spec, group, index, restarts)
    topology = (meta.get("annotations") or {}).get(EXCLUSIVE)
    notes = {**marks, EXCLUSIVE: topology} if topology else marks
    template = own_copy(group["template"])
    job_spec = template["spec"]
    job_spec["suspend"] = bool(spec.get("suspend"))
    pods = job_spec["template"]
    own = pods.get("metadata") or {}
    pods["metadata"] = {
        **own,
        "labels": {**(own.get("labels") or {}), **marks, PREFIX + "priority": "0"},
        "annotations": {**(own.get("annotations") or {}), **notes},
    }
    if spec["network"]["enableDNSHostnames"]:
        pods["spec"].setdefault("subdomain", subdomain(jobset, spec))
    of_job = template.get("metadata") or {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {**(of_job.get("labels") or {}), **marks},
            "annotations": {**(of_job.get("annotations") or {}), **notes},
            "ownerReferences": [owner_ref(R.JOB_SET, jobset)],
        },
        "spec": job_spec,
    }


def _marks(
    jobset: Object, spec: Object, group: Object, index: int, restarts: int
) -> dict[str, str]:
    meta, groups = jobset["metadata"], spec["replicatedJobs"]
    mates = [g for g in groups if g["groupName"] == group["groupName"]]
    key = f"{meta['namespace']}/{job_name(jobset, group['name'], index)}"
    values = {
        "jobset-name": meta["name"],
        "jobset-uid": meta["uid"],
        "replicatedjob-name": group["name"],
        "replicatedjob-replicas": group["replicas"],
        "restart-attempt": restarts,
        "job-index": index,
        "job-key": hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest(),
        "job-global-index": _before(groups, group) + index,
        "global-replicas": sum(g["replicas"] for g in groups),
        "group-name": group["groupName"],
        "group-replicas": sum(g["replicas"] for g in mates),
        "job-group-index": _before(mates, group) + index,
    }
    marks = {PREFIX + name: str(value) for name, value in values.items()}
    coordinator = spec.get("coordinator")
    if coordinator:
        marks[PREFIX + "coordinator"] = (
            f"{job_name(jobset, coordinator['replicatedJob'], coordinator.get('jobIndex', 0))}"
            f"-{coordinator.get('podIndex', 0)}.{subdomain(jobset, spec)}"
        )
    return marks


def _before(groups: list[Object], group: Object) -> int:
    """Jobs of the groups that come before this one."""
    total = 0
    for other in groups:
        if other["name"] == group["name"]:
            break
        total += other["replicas"]
    return total

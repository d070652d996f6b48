"""RayCronJob: each run is a RayJob and is grouped as one; this is what a run will look like."""

from __future__ import annotations

from dataclasses import replace

from kai_ray.podgrouper.build import merged_over
from kai_ray.podgrouper.groups import Group
from kai_ray.podgrouper.values import Object, mapping, name_of, namespace_of
from kai_ray.podgrouper.workload import UNKNOWN_NAME, UNKNOWN_UID, Rule, Workload

from .ray_job import ray_job_groups


def run_of(cron: Object) -> Object:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {
            "name": f"{name_of(cron)}-{UNKNOWN_NAME}",
            "namespace": namespace_of(cron),
            "uid": UNKNOWN_UID,
        },
        "spec": mapping(cron, "spec.jobTemplate"),
    }


def ray_cron_job_groups(w: Workload) -> list[Group]:
    """Only when planning: in a cluster the run's RayJob has the group."""
    if not w.planning:
        return []
    run = merged_over(run_of(w.subject), w.subject)
    return ray_job_groups(replace(w, subject=run, owners=(run, w.subject)))


RULE = Rule(ray_cron_job_groups)

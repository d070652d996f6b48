"""A pod without an owner: a group of one, or one Spark application by its selector label."""

from __future__ import annotations

from kai_ray.podgrouper.build import build_group
from kai_ray.podgrouper.groups import Group, Member
from kai_ray.podgrouper.values import Object, labels
from kai_ray.podgrouper.workload import Rule, Workload

SPARK_NAME = "spark-app-name"
SPARK_SELECTOR = "spark-app-selector"


def spark_group_name(pod: Object) -> str:
    """The group's name of a Spark pod, "" for other pods: driver and executors share it."""
    found = labels(pod)
    return found.get(SPARK_SELECTOR, "") if found.get(SPARK_NAME) else ""


def pod_groups(w: Workload) -> list[Group]:
    return [
        build_group(
            w,
            name=spark_group_name(w.pod or w.subject),
            members=(Member("pod", w.subject, 1),),
        )
    ]


RULE = Rule(pod_groups, per_pod=True)

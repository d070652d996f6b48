"""Deployment: pods that serve alone, so each is a group; with kai.scheduler/min-member one gang."""

from __future__ import annotations

from dataclasses import replace

from kai_ray.api import labels as keys
from kai_ray.podgrouper.build import LARGEST_NAME, build_group, group_name
from kai_ray.podgrouper.groups import LARGEST_TREE, Group, Owner, owner_reference
from kai_ray.podgrouper.values import GroupError, annotations_of, name_of
from kai_ray.podgrouper.workload import UNKNOWN_NAME, UNKNOWN_UID, Rule, Workload

from .default import members_of


def deployment_groups(w: Workload) -> list[Group]:
    if any(keys.MIN_MEMBER in annotations_of(o) for o in (w.top, w.subject)):
        return [build_group(w, members=members_of(w.subject), default_priority="inference")]
    return per_pod_groups(w)


def per_pod_groups(w: Workload) -> list[Group]:
    """One group for the pod at hand; when planning, one for each pod that there will be."""
    if w.pod is not None:
        return [
            build_group(
                w,
                name=group_name(w.pod),
                owner=owner_reference(w.pod),
                default_priority="inference",
            )
        ]
    if not w.planning:
        return []
    members = members_of(w.subject)
    number = sum(m.count for m in members)
    if number > LARGEST_TREE:
        raise GroupError(
            "spec.replicas",
            f"is {number}, above the limit of {LARGEST_TREE} groups of one pod",
            f"write fewer, or make it one gang with annotation {keys.MIN_MEMBER}",
        )
    one = build_group(
        w,
        name=f"pg-{name_of(w.subject)}-{UNKNOWN_NAME}-{UNKNOWN_UID}"[:LARGEST_NAME],
        owner=Owner("v1", "Pod"),
        members=tuple(replace(m, count=1) for m in members),
        default_priority="inference",
    )
    return [one] * number


RULE = Rule(deployment_groups, per_pod=True)

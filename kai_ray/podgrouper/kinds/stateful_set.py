"""StatefulSet: one group of minimum 1, or a gang where the pods are made side by side."""

from __future__ import annotations

from kai_ray.api import labels as keys
from kai_ray.podgrouper.build import build_group
from kai_ray.podgrouper.groups import Group
from kai_ray.podgrouper.values import GroupError, text
from kai_ray.podgrouper.workload import Rule, Workload

from .default import members_of


def stateful_set_groups(w: Workload) -> list[Group]:
    group = build_group(w, members=members_of(w.subject))
    one_by_one = text(w.subject, "spec.podManagementPolicy") != "Parallel"
    if one_by_one and (group.min_member or 0) > 1:
        raise GroupError(
            "spec.podManagementPolicy",
            f"makes a pod only when the last one runs, but annotation {keys.MIN_MEMBER} wants "
            f"{group.min_member} to start together",
            "write podManagementPolicy: Parallel",
        )
    return [group]


RULE = Rule(stateful_set_groups)

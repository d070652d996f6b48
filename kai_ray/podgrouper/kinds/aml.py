"""AmlJob (Azure Machine Learning): as many pods as the job's environment says there are nodes."""

from __future__ import annotations

from kai_ray.podgrouper.build import build_group
from kai_ray.podgrouper.groups import Group
from kai_ray.podgrouper.values import GroupError, dig, number_in, whole
from kai_ray.podgrouper.workload import Rule, Workload

from .default import members_of

FIELD = "spec.job.options.envs.AZUREML_NODE_COUNT"


def aml_groups(w: Workload) -> list[Group]:
    value = dig(w.subject, FIELD)
    if value is None:
        raise GroupError(FIELD, "is missing", "write the number of nodes there")
    nodes = number_in(value, FIELD, least=0) if isinstance(value, str) else whole(value, FIELD)
    return [build_group(w, min_member=nodes, members=members_of(w.subject))]


RULE = Rule(aml_groups)

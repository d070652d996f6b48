"""RunaiJob: a group for each trial; the trial is the pod's name without its last part."""

from __future__ import annotations

from collections.abc import Sequence

from kai_ray.podgrouper.build import build_group, group_name
from kai_ray.podgrouper.groups import Group
from kai_ray.podgrouper.values import Object, name_of, namespace_of, uid_of
from kai_ray.podgrouper.workload import Place, Rule, Workload

from .default import members_of


def _name(w: Workload, pod: Object) -> str:
    legacy = group_name(w.subject)
    kind = ("scheduling.run.ai/v2alpha2", "PodGroup")
    if w.settings.search_legacy and w.reader.get(*kind, legacy, namespace_of(pod)) is not None:
        return legacy
    whole = name_of(pod)
    return f"pg-{whole.rpartition('-')[0] or whole}-{uid_of(w.subject)}"


def runai_groups(w: Workload) -> list[Group]:
    name = _name(w, w.pod) if w.pod is not None else ""
    return [build_group(w, name=name, members=members_of(w.subject))]


def place_runai_pod(w: Workload, pod: Object, groups: Sequence[Group]) -> Place:
    return Place(_name(w, pod))


RULE = Rule(runai_groups, place_runai_pod, per_pod=True)

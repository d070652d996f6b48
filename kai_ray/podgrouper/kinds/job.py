"""batch/v1 Job: one group; how many pods must start together is for the user to say."""

from __future__ import annotations

from collections.abc import Sequence

from kai_ray.api import labels as keys
from kai_ray.podgrouper.build import build_group, pod_template, soft_template
from kai_ray.podgrouper.groups import Group, Member
from kai_ray.podgrouper.values import (
    Object,
    annotations_of,
    count,
    mapping,
    name_of,
    namespace_of,
    number_in,
    uid_of,
)
from kai_ray.podgrouper.workload import Place, Rule, Workload


def parallel_pods(spec: Object, field: str = "spec") -> int:
    """Pods that a Job runs side by side: its parallelism, but never more than its completions."""
    parallelism = count(spec, "parallelism", 1, field) or 0
    completions = count(spec, "completions", None, field)
    return parallelism if completions is None else min(parallelism, completions)


def remaining(job: Object) -> int | None:
    """Completions still to come, None for a Job that does not count them."""
    completions = count(job, "spec.completions", None)
    if completions is None:
        return None
    return max(0, completions - (count(job, "status.succeeded", 0) or 0))


def job_groups(w: Workload) -> list[Group]:
    spec = mapping(w.subject, "spec")
    minimum = 1
    stated = annotations_of(w.subject).get(keys.BATCH_MIN_MEMBER)
    if stated is not None:
        minimum = number_in(stated, f"metadata.annotations[{keys.BATCH_MIN_MEMBER}]", least=0)
        left = remaining(w.subject)
        if left is not None:  # the last pods of a job must not wait for ones that are done
            minimum = min(minimum, max(1, left))
    template = (
        pod_template(w.subject, "spec.template")
        if w.planning
        else soft_template(w.subject, "spec.template")
    )
    side_by_side = parallel_pods(spec)
    notes: list[str] = []
    if minimum > max(1, side_by_side):
        notes.append(
            f"annotation {keys.BATCH_MIN_MEMBER} asks for {minimum} pods, but {side_by_side} run "
            "side by side: the job cannot start; write fewer, or raise spec.parallelism"
        )
    members = (Member("pods", template, side_by_side),)
    return [build_group(w, min_member=minimum, members=members, notes=notes)]


def place_job_pod(w: Workload, pod: Object, groups: Sequence[Group]) -> Place:
    """The Job's group, unless an older version already made one for this pod."""
    if w.settings.search_legacy:
        legacy = f"pg-{name_of(pod)}-{uid_of(w.subject)}"
        kind = ("scheduling.run.ai/v2alpha2", "PodGroup")
        if w.reader.get(*kind, legacy, namespace_of(pod)) is not None:
            return Place(legacy)
    return Place(groups[0].name)


RULE = Rule(job_groups, place_job_pod)

"""JobSet: a set of subgroups for each replicated Job, one leaf for each of its Jobs.

Only Jobs that may run now count: those whose `dependsOn` (or, with startup policy InOrder, whose
predecessors) are where they must be. Later phases have a minimum of 0 until their turn comes, and
what is done counts no more. Minima follow the work that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kai_ray.api import labels as keys
from kai_ray.podgrouper import topologies
from kai_ray.podgrouper.build import (
    LARGEST_NAME,
    build_group,
    group_name,
    pod_template,
    soft_template,
)
from kai_ray.podgrouper.groups import LARGEST_TREE, Group, Member, SubGroup, dns_label, too_many
from kai_ray.podgrouper.values import (
    GroupError,
    Object,
    annotations_of,
    count,
    dig,
    labels,
    name_of,
    namespace_of,
    number_in,
    sequence,
    text,
    uid_of,
)
from kai_ray.podgrouper.workload import Place, Rule, Workload

from .job import parallel_pods, remaining

READY, COMPLETE = "Ready", "Complete"
IN_ORDER = "InOrder"


@dataclass(frozen=True, slots=True)
class ReplicatedJob:
    """One entry of spec.replicatedJobs. `minimum`: pods that each of its Jobs needs."""

    name: str
    replicas: int
    pods: int
    minimum: int
    waits_for: tuple[tuple[str, str], ...]
    template: Object
    pod: Object
    field: str


def replicated_jobs(w: Workload) -> list[ReplicatedJob]:
    in_order = _in_order(w.subject)
    found: list[ReplicatedJob] = []
    stated = sequence(w.subject, "spec.replicatedJobs")
    if len(stated) > LARGEST_TREE:
        raise too_many(len(stated), "spec.replicatedJobs")
    for i, raw in enumerate(stated):
        field = f"spec.replicatedJobs[{i}]"
        if not isinstance(raw, dict):
            raise GroupError(field, "is not an object", "write a replicated Job there")
        name = text(raw, "name", field)
        if not name:
            raise GroupError(f"{field}.name", "is missing", "give the replicated Job a name")
        waits = _waits_for(raw, field)
        if in_order and found:
            waits += ((found[-1].name, READY),)
        spec = dig(raw, "template.spec")
        pods = parallel_pods(spec, f"{field}.template.spec")
        reader = pod_template(spec, "template", f"{field}.template.spec") if w.planning else None
        found.append(
            ReplicatedJob(
                name,
                _one_if_none(count(raw, "replicas", 1, field)),
                pods,
                _minimum(raw, pods, field),
                waits,
                soft_template(raw, "template"),
                reader or soft_template(spec, "template"),
                field,
            )
        )
    return found


def _one_if_none(value: int | None) -> int:
    return 1 if value is None else value


def _in_order(jobset: Object) -> bool:
    return text(jobset, "spec.startupPolicy.startupPolicyOrder") == IN_ORDER


def _waits_for(raw: Object, field: str) -> tuple[tuple[str, str], ...]:
    waits: list[tuple[str, str]] = []
    for j, dependency in enumerate(sequence(raw, "dependsOn", field)):
        at = f"{field}.dependsOn[{j}]"
        if not isinstance(dependency, dict) or not text(dependency, "name", at):
            raise GroupError(f"{at}.name", "is missing", "name the replicated Job to wait for")
        status = text(dependency, "status", at) or COMPLETE
        if status not in (READY, COMPLETE):
            raise GroupError(f"{at}.status", f"is {status!r}", f"write {READY} or {COMPLETE}")
        waits.append((text(dependency, "name", at), status))
    return tuple(waits)


def _minimum(raw: Object, pods: int, field: str) -> int:
    """The template's annotation, else all pods that run side by side; never more than there are."""
    stated = annotations_of(dig(raw, "template")).get(keys.BATCH_MIN_MEMBER)
    if stated is None:
        return pods
    at = f"{field}.template.metadata.annotations[{keys.BATCH_MIN_MEMBER}]"
    least = number_in(stated, at, least=1)
    completions = count(raw, "template.spec.completions", None, field)
    return least if completions is None else min(least, completions)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one replicated Job is, in Jobs."""

    ready: int = 0
    succeeded: int = 0


def progress_of(jobset: Object) -> dict[str, Progress]:
    found: dict[str, Progress] = {}
    for raw in sequence(jobset, "status.replicatedJobsStatus"):
        if isinstance(raw, dict):
            found[str(raw.get("name"))] = Progress(
                count(raw, "ready", 0) or 0, count(raw, "succeeded", 0) or 0
            )
    return found


def current(jobs: Sequence[ReplicatedJob], progress: dict[str, Progress]) -> set[str]:
    """The replicated Jobs whose turn it is: not done, and nothing they wait for is missing."""
    by_name = {job.name: job for job in jobs}
    _refuse_circles(by_name)

    def done(job: ReplicatedJob) -> bool:
        return bool(job.replicas) and progress.get(job.name, Progress()).succeeded >= job.replicas

    def met(name: str, status: str) -> bool:
        job, state = by_name[name], progress.get(name, Progress())
        return done(job) or (status == READY and state.ready + state.succeeded >= job.replicas)

    return {j.name for j in jobs if not done(j) and all(met(*wait) for wait in j.waits_for)}


def _refuse_circles(by_name: dict[str, ReplicatedJob]) -> None:
    safe: set[str] = set()
    for start in by_name.values():
        trail = [(start.name, iter(start.waits_for))]
        path = {start.name}
        while trail:
            name, waits = trail[-1]
            following = next(waits, None)
            if following is None:
                trail.pop()
                path.discard(name)
                safe.add(name)
                continue
            needed = following[0]
            if needed not in by_name:
                raise GroupError(
                    f"{by_name[name].field}.dependsOn",
                    f"{needed!r} is no replicated Job",
                    "name one of spec.replicatedJobs",
                )
            if needed in path:
                raise GroupError(
                    f"{by_name[name].field}.dependsOn",
                    f"waits for {needed!r}, which waits for it",
                    "break the circle",
                )
            if needed not in safe:
                path.add(needed)
                trail.append((needed, iter(by_name[needed].waits_for)))


def job_set_groups(w: Workload) -> list[Group]:
    jobs = replicated_jobs(w)
    if not jobs:
        raise GroupError("spec.replicatedJobs", "is empty", "write at least one replicated Job")
    if not w.planning and (legacy := _legacy(w, jobs)) is not None:
        return legacy
    size = sum(job.replicas + 1 for job in jobs)
    if size > LARGEST_TREE:
        raise too_many(size, "spec.replicatedJobs")
    progress = progress_of(w.subject)
    now = current(jobs, progress)
    tree, notes = _tree(w, jobs, now, progress)
    sets = sum(sub.parent is None for sub in tree)
    members = [Member(job.name, job.pod, job.replicas * job.pods, job.name) for job in jobs]
    return [
        build_group(
            w,
            min_member=None,
            min_sub_group=_root_minimum(w.subject, sets),
            sub_groups=tree,
            members=members,
            notes=notes,
        )
    ]


def _root_minimum(jobset: Object, sets: int) -> int:
    """All sets (those whose turn is not now ask for nothing), or as many as the annotation says."""
    stated = annotations_of(jobset).get(keys.BATCH_MIN_MEMBER)
    if stated is None:
        return sets
    field = f"metadata.annotations[{keys.BATCH_MIN_MEMBER}]"
    return min(number_in(stated, field, least=1), sets)


def _tree(
    w: Workload, jobs: Sequence[ReplicatedJob], now: set[str], progress: dict[str, Progress]
) -> tuple[list[SubGroup], list[str]]:
    notes: list[str] = []
    tree: list[SubGroup] = []
    taken = {job.name for job in jobs}
    for job in jobs:
        if not job.replicas:
            continue
        constraint = topologies.template_topology(w, job.template, notes, f"{job.field}.template")
        if constraint is None:
            constraint = topologies.kueue_topology(w, job.pod, notes) or None
        started = job.name in now and job.name in progress
        needed = job.replicas if job.name in now else 0
        tree.append(SubGroup(job.name, min_sub_group=needed))
        for i in range(job.replicas):
            floor = min(job.minimum, _left(w, job, i)) if started else job.minimum
            leaf = dns_label(f"{job.name}-replica-{i}", taken)
            tree.append(SubGroup(leaf, floor, parent=job.name, topology=constraint))
    return tree, notes


def _left(w: Workload, job: ReplicatedJob, index: int) -> int:
    """Pods that one Job of a running set still needs side by side."""
    name = f"{name_of(w.subject)}-{job.name}-{index}"
    found = w.reader.get("batch/v1", "Job", name, namespace_of(w.subject))
    if found is None:
        return job.minimum
    for condition in sequence(found, "status.conditions"):
        if not isinstance(condition, dict) or condition.get("status") != "True":
            continue
        if condition.get("type") in ("Complete", "Failed"):
            return 0
    left = remaining(found)
    return job.minimum if left is None else left


def _legacy(w: Workload, jobs: Sequence[ReplicatedJob]) -> list[Group] | None:
    """Groups of an older version have no subgroups, nor have their pods: the shape is kept."""
    base = group_name(w.subject)
    kind = ("scheduling.run.ai/v2alpha2", "PodGroup")
    existing = [
        g
        for g in w.reader.owned(*kind, uid_of(w.subject))
        if name_of(g) == base or name_of(g).startswith(f"{base}-")
    ]
    if not existing or any(dig(g, "spec.subGroups") for g in existing):
        return None
    stated = annotations_of(w.subject).get(keys.BATCH_MIN_MEMBER)
    field = f"metadata.annotations[{keys.BATCH_MIN_MEMBER}]"
    floor = 1 if stated is None else number_in(stated, field, least=1)
    names = [base]
    if _in_order(w.subject):
        names = [f"{base}-{job.name}"[:LARGEST_NAME] for job in jobs]
    return [build_group(w, name=name, min_member=floor) for name in names]


def place_job_set_pod(w: Workload, pod: Object, groups: Sequence[Group]) -> Place:
    job = _label(pod, keys.JOBSET_REPLICATED_JOB)
    if not groups[0].sub_groups:
        wanted = f"{group_name(w.subject)}-{job}"
        return Place(wanted if wanted in {g.name for g in groups} else groups[0].name)
    index = _label(pod, keys.JOBSET_JOB_INDEX)
    leaf = f"{job}-replica-{index}"
    if leaf not in groups[0].leaf_names():
        raise GroupError(
            f"metadata.labels[{keys.JOBSET_JOB_INDEX}]",
            f"{leaf!r} is no Job of this JobSet",
            "raise the replicas of the replicated Job",
        )
    return Place(groups[0].name, leaf)


def _label(pod: Object, key: str) -> str:
    value: Any = labels(pod).get(key)
    if not value:
        raise GroupError(f"metadata.labels[{key}]", "is missing", "let the JobSet make the pod")
    return value


RULE = Rule(job_set_groups, place_job_set_pod)

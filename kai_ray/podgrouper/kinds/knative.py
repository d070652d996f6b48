"""Knative Service: a gang for each Revision, as large as its least scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kai_ray.podgrouper.build import build_group, group_name, soft_template
from kai_ray.podgrouper.groups import Group, Member, owner_reference
from kai_ray.podgrouper.values import (
    GroupError,
    Object,
    annotations_of,
    labels,
    name_of,
    namespace_of,
)
from kai_ray.podgrouper.workload import UNKNOWN_NAME, UNKNOWN_UID, Place, Rule, Workload

REVISION = "serving.knative.dev/revision"
MIN_SCALE = "autoscaling.knative.dev/min-scale"
API = "serving.knative.dev/v1"


def knative_groups(w: Workload) -> list[Group]:
    if w.planning:
        revision = _planned_revision(w)
        count = max(1, _min_scale(revision))
        template = soft_template(w.subject, "spec.template")
        member = Member("revision", template, count)
        return [_gang(replace(w, owners=(revision, w.subject)), revision, (member,))]
    if w.pod is None:
        return []
    revision = _revision(w)
    about = replace(w, subject=revision, owners=(revision,))
    if not w.settings.knative_gang or _runs_per_pod(w, revision):
        return [
            build_group(
                about,
                name=group_name(w.pod),
                owner=owner_reference(w.pod),
                default_priority="inference",
            )
        ]
    return [_gang(about, revision)]


def _gang(w: Workload, revision: Object, members: tuple[Member, ...] = ()) -> Group:
    return build_group(
        replace(w, subject=revision),
        min_member=_min_scale(revision),
        members=members,
        default_priority="inference",
    )


def _revision(w: Workload) -> Object:
    assert w.pod is not None
    name = labels(w.pod).get(REVISION, "")
    found = w.reader.get(API, "Revision", name, namespace_of(w.pod)) if name else None
    if found is None:
        raise GroupError(
            f"metadata.labels[{REVISION}]",
            f"names no Revision that can be read ({name or 'missing'})",
            "let Knative make the pod",
        )
    return found


def _min_scale(revision: Object) -> int:
    """The annotation as a number; 1 where it is missing or not one."""
    value = annotations_of(revision).get(MIN_SCALE, "")
    return int(value) if value.isdecimal() and len(value) < 7 else 1


def _runs_per_pod(w: Workload, revision: Object) -> bool:
    """Whether pods of this revision already run in groups of their own, of an older version."""
    assert w.pod is not None
    gang = group_name(revision)
    pods = w.reader.list("v1", "Pod", namespace_of(w.pod), {REVISION: name_of(revision)})
    stamped = {annotations_of(p).get("pod-group-name") for p in pods} - {None}
    return bool(stamped) and gang not in stamped


def _planned_revision(w: Workload) -> Object:
    template = soft_template(w.subject, "spec.template")
    return {
        "apiVersion": API,
        "kind": "Revision",
        "metadata": {
            "name": f"{name_of(w.subject)}-{UNKNOWN_NAME}",
            "namespace": namespace_of(w.subject),
            "uid": UNKNOWN_UID,
            "labels": labels(template),
            "annotations": annotations_of(template),
        },
    }


def place_knative_pod(w: Workload, pod: Object, groups: Sequence[Group]) -> Place:
    return Place(groups[0].name)


RULE = Rule(knative_groups, place_knative_pod, per_pod=True)

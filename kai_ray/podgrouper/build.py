"""Puts a group together: what the rule of a kind found, with all that is common to kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kai_ray.api import labels as keys
from kai_ray.encode import traits

from . import fields, topologies
from .groups import (
    Group,
    Member,
    Owner,
    SubGroup,
    Topology,
    check_tree,
    owner_reference,
    top_owner_metadata,
)
from .minimum import with_min_member
from .unread import unread_notes
from .values import GroupError, Object, annotations_of, dig, labels, metadata, name_of, uid_of
from .workload import Workload

LARGEST_NAME = 253


def group_name(obj: Object) -> str:
    """KAI's name for the group of an object."""
    return f"pg-{name_of(obj)}-{uid_of(obj)}"[:LARGEST_NAME]


def build_group(
    w: Workload,
    *,
    name: str = "",
    owner: Owner | None = None,
    min_member: int | None = 1,
    min_sub_group: int | None = None,
    sub_groups: Iterable[SubGroup] = (),
    members: Iterable[Member] = (),
    default_priority: str = "train",
    native_queue: tuple[tuple[str, Any], ...] = (),
    native_priority: tuple[tuple[str, Any], ...] = (),
    forced_priority: str = "",
    topology: Topology | None = None,
    notes: Iterable[str] = (),
) -> Group:
    """The group of `w.subject`. `native_*`: (words, value) pairs of the kind's own fields.

    `forced_priority` wins over everything and is not looked up (KAI's rule for Ray's label).
    Raises GroupError if what comes out could not be stored.
    """
    members, sub_groups, remarks = tuple(members), tuple(sub_groups), list(notes)
    check_tree(sub_groups)
    if not w.planning and not name_of(w.subject):
        raise GroupError("metadata.name", "is missing", "give the object a name")
    queue = fields.queue_of(w, members, native_queue)
    priority = fields.priority_of(w, members, default_priority, native_priority, queue.value)
    if forced_priority:
        priority = fields.Found(forced_priority, f"label {keys.RAY_PRIORITY_CLASS}")
    preemptibility = fields.preemptibility_of(w, members, remarks)
    if topology is None:
        topology = whole_topology(w, members, remarks)
    remarks += unread_notes(w, members, sub_groups)
    group = Group(
        name=name or group_name(w.subject),
        namespace=w.namespace,
        owner=owner or owner_reference(w.subject),
        queue=queue.value,
        priority_class=priority.value,
        preemptibility=preemptibility.value,
        preemptible=fields.is_preemptible(w, priority.value, preemptibility.value),
        min_member=min_member,
        min_sub_group=min_sub_group,
        sub_groups=sub_groups,
        topology=topology,
        preemption_delay=fields.delay_of(
            w, members, keys.PREEMPTION_DELAY, remarks, negative=False
        ),
        staleness_grace_period=fields.delay_of(
            w, members, keys.STALENESS_GRACE_PERIOD, remarks, negative=True
        ),
        labels=_labels(w, members, remarks),
        annotations=_annotations(w, members),
        members=members,
        sources={
            "queue": queue.source,
            "priorityClassName": priority.source,
            "preemptibility": preemptibility.source,
        },
        notes=tuple(remarks),
    )
    return with_min_member(w, group)


def whole_topology(w: Workload, members: tuple[Member, ...], notes: list[str]) -> Topology:
    """The constraint of the whole workload: KAI's annotations of the owner, else Kueue's.

    Kueue writes its annotations on pod templates; those of a flat group's only template hold for
    the group.
    """
    for owner in (w.subject, w.top):
        stated = topologies.stated_topology(owner)
        if stated:
            return stated
    candidates: list[Object] = [w.subject, w.top]
    required = [m for m in members if not m.optional]
    if len(required) == 1 and required[0].subgroup is None:
        candidates.append(required[0].template)
    for obj in candidates:
        found = topologies.kueue_topology(w, obj, notes)
        if found:
            return found
    return Topology()


def _labels(w: Workload, members: tuple[Member, ...], notes: list[str]) -> dict[str, str]:
    found = dict(labels(w.subject))
    found.pop(keys.WORKLOAD_TYPE, None)
    kind = fields.type_of(w, members, notes)
    if kind:
        found[keys.WORKLOAD_TYPE] = kind
    user = fields.pod_label(w, members, keys.USER)
    if user and keys.USER not in found:
        found[keys.USER] = user
    pool = fields.pod_label(w, members, w.settings.node_pool_label)
    if pool:
        found[w.settings.node_pool_label] = pool
    return found


def _annotations(w: Workload, members: tuple[Member, ...]) -> dict[str, str]:
    found = dict(annotations_of(w.subject))
    user = fields.pod_annotation(w, members, keys.USER)
    if user and keys.USER not in found:
        found[keys.USER] = user
    found.pop(keys.SUSPENDED, None)
    found.pop(keys.POD_GROUP, None)  # a pod's own, since it was bound
    if any(traits.says_suspended(o) for o in (w.top, *w.owners, w.subject)):
        found[keys.SUSPENDED] = "true"
    found[keys.TOP_OWNER_METADATA] = top_owner_metadata(owner_reference(w.subject))
    return found


def merged_over(lower: Object, upper: Object) -> Object:
    """`lower` with the labels and annotations of the skipped owner `upper` where it has none."""
    meta = dict(metadata(lower))
    inherited = {k: v for k, v in annotations_of(upper).items() if "last-applied" not in k}
    for part, above in (("labels", labels(upper)), ("annotations", inherited)):
        own = meta.get(part)
        together = {**above, **own} if isinstance(own, dict) else above
        if together:
            meta[part] = together
    return {**lower, "metadata": meta}


def pod_template(holder: Any, path: str, field: str = "") -> Object:
    """The pod template at `path`; a missing one is refused, as no pod could come of it."""
    value = dig(holder, path)
    where = f"{field}.{path}" if field else path
    if value is None:
        raise GroupError(where, "is missing", "write the pods' template there")
    if not isinstance(value, dict):
        raise GroupError(where, "is not an object", "write the pods' template there")
    return value


def soft_template(holder: Any, path: str) -> Object:
    """The pod template at `path`, {} where there is none: sizes are then not known."""
    value = dig(holder, path)
    return value if isinstance(value, dict) else {}


def with_containers(template: Object, part: str, extra: Iterable[Object]) -> Object:
    """The template with what its operator adds to "containers" or "initContainers"."""
    spec, more = template.get("spec"), list(extra)
    if not more or not isinstance(spec, dict):
        return template
    own = spec.get(part)
    return {**template, "spec": {**spec, part: [*(own if isinstance(own, list) else []), *more]}}

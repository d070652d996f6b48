"""Groups of workloads that do not exist yet, from their manifests alone."""

from __future__ import annotations

from dataclasses import replace

from .build import merged_over
from .groups import Group, too_many
from .kinds import karta
from .kinds.default import members_of
from .registry import RULES, WRAPPERS, kind_key, rule_of
from .values import (
    GroupError,
    Object,
    annotations_of,
    dig,
    labels,
    metadata,
    name_of,
    sequence,
)
from .workload import UNKNOWN_UID, Workload

APP_WRAPPER = ("workload.codeflare.dev", "AppWrapper")
#: More gangs than this in one workload cannot be shown, nor stored.
MOST_GANGS = 10_000
_DEEPEST = 4


def planned_groups(w: Workload, depth: int = 0) -> list[Group] | None:
    """The groups of `w.subject`, None if it is no workload. Raises GroupError."""
    key = kind_key(w.subject)
    if key == APP_WRAPPER:
        return _wrapped(w, depth)
    rule = RULES.get(key) or WRAPPERS.get(key)
    if rule is None and key not in WRAPPERS and karta.find(w) is not None:
        rule = karta.RULE
    if rule is None:
        if key in WRAPPERS:
            return []  # what it will run is decided step by step, when it runs
        if not _runs_pods(w.subject):
            return None
        rule = rule_of(w.subject)
    if not name_of(w.subject):
        raise GroupError("metadata.name", "is missing", "give the object a name")
    subject = rule.defaults(w.subject) if rule.defaults else w.subject
    groups = rule.groups(replace(w, subject=subject))
    if len(groups) > MOST_GANGS:
        raise too_many(len(groups), "the workload")
    return groups


def _containers(template: Object) -> list[object]:
    spec = template.get("spec")
    found = spec.get("containers") if isinstance(spec, dict) else None
    return found if isinstance(found, list) else []


def _runs_pods(obj: Object) -> bool:
    """Whether an object of an unknown kind has a pod template, one with containers."""
    return any(_containers(m.template) for m in members_of(obj))


def _wrapped(w: Workload, depth: int) -> list[Group]:
    """A group per wrapped object, by that object's rule; queue and priority are the wrapper's."""
    if depth >= _DEEPEST:
        raise GroupError("spec.components", "wrap each other too deep", "unwrap some")
    found: list[Group] = []
    for i, raw in enumerate(sequence(w.subject, "spec.components")):
        template = dig(raw, "template")
        if not isinstance(template, dict):
            raise GroupError(
                f"spec.components[{i}].template", "is missing", "write the wrapped object there"
            )
        meta = {**metadata(template)}
        meta.setdefault("uid", UNKNOWN_UID)
        meta["namespace"] = w.namespace
        inner = merged_over({**template, "metadata": meta}, w.subject)
        about = replace(w, subject=inner, owners=(inner, *w.owners))
        if kind_key(inner) == ("", "Pod"):
            about = replace(about, pod=inner)
        found += planned_groups(about, depth + 1) or []
    return found


def pod_template_of(obj: Object) -> Object:
    """The template whose annotations speak for all pods: the pod itself, or the only template."""
    if kind_key(obj) == ("", "Pod"):
        return obj
    members = members_of(obj)
    if members:
        return members[0].template
    return {"metadata": {"labels": labels(obj), "annotations": _own_notes(obj)}}


def _own_notes(obj: Object) -> dict[str, str]:
    return {k: v for k, v in annotations_of(obj).items() if k == "kai.scheduler/skip-podgrouper"}

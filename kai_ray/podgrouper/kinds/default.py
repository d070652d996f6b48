"""Owners without a rule of their own, known or not: one group, minimum 1."""

from __future__ import annotations

from typing import Any

from kai_ray.podgrouper.build import build_group, soft_template
from kai_ray.podgrouper.groups import Group, Member
from kai_ray.podgrouper.values import Object, dig
from kai_ray.podgrouper.workload import Rule, Workload

#: Where a kind that we do not know might keep its pods' template and their number.
_TEMPLATES = ("spec.template", "spec.podTemplate", "spec.jobTemplate.spec.template")
_COUNTS = ("spec.replicas", "spec.parallelism")


def members_of(obj: Object, role: str = "pods") -> tuple[Member, ...]:
    """The pods of an object with one template, as far as it can be told."""
    for path in _TEMPLATES:
        template = _soft(obj, path)
        if isinstance(template.get("spec"), dict):
            return (Member(role, template, _count(obj)),)
    return ()


def _soft(obj: Object, path: str) -> Object:
    try:
        return soft_template(obj, path)
    except Exception:
        return {}


def _count(obj: Object) -> int:
    for path in _COUNTS:
        try:
            value: Any = dig(obj, path)
        except Exception:
            continue
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10**6:
            return value
    return 1


def default_groups(w: Workload) -> list[Group]:
    return [build_group(w, members=members_of(w.subject))]


def inference_groups(w: Workload) -> list[Group]:
    """As the default, but a service: class inference."""
    return [build_group(w, members=members_of(w.subject), default_priority="inference")]


def build_groups(w: Workload) -> list[Group]:
    """As the default, but somebody works in it: class build, not preemptible."""
    return [build_group(w, members=members_of(w.subject), default_priority="build")]


DEFAULT = Rule(default_groups)
INFERENCE = Rule(inference_groups)
NOTEBOOK = Rule(build_groups)

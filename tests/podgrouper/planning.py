"""Plans of objects written in tests."""

from __future__ import annotations

from typing import Any

from kai_ray.podgrouper.manifests import Document
from kai_ray.podgrouper.plan import Gang, WorkloadPlan, plan_documents

Object = dict[str, Any]


def plans(*objects: Object) -> list[WorkloadPlan]:
    return plan_documents([Document("test.yaml", obj) for obj in objects])


def gangs(obj: Object, *others: Object) -> tuple[Gang, ...]:
    """The gangs of the first object, which must be a workload that can be grouped."""
    plan = next(p for p in plans(obj, *others) if p.name == obj["metadata"]["name"])
    assert plan.error is None, plan.error
    return plan.gangs


def gang(obj: Object, *others: Object) -> Gang:
    (only,) = gangs(obj, *others)
    return only


def refusal(obj: Object, *others: Object) -> str:
    plan = plans(obj, *others)[0]
    assert plan.error is not None
    assert plan.gangs == ()
    return plan.error


def workload(api_version: str, kind: str, spec: Object, **meta: Any) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "w", **meta},
        "spec": spec,
    }


def pods(cpu: str = "1", **meta: Any) -> Object:
    """A pod template with one container."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": meta, "spec": {"containers": [container]}}


def shape(found: Gang) -> list[tuple[str, str | None, int | None, int | None]]:
    return [(s.name, s.parent, s.min_member, s.min_sub_group) for s in found.sub_groups]

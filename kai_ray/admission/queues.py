"""Queues: quantities that can be used, a parent that exists, a tree without cycles."""

from __future__ import annotations

from typing import Any

from kai_ray.admission.refusal import cause, refusal
from kai_ray.api import notify
from kai_ray.cluster import resources as kinds
from kai_ray.cluster.port import AdmissionRequest, NotFound, Object, Port
from kai_ray.encode import queue_policy
from kai_ray.encode.problems import Malformed
from kai_ray.encode.queues import RESOURCES, cycle_through, min_runtime, quantity_error

_DEEPEST = 64


class QueueAdmission:
    resources = frozenset({kinds.QUEUE})

    def admit(self, request: AdmissionRequest, reader: Port) -> Object:
        queue = request.object
        name = queue["metadata"].get("name") or ""
        if request.operation == "DELETE":
            self._may_go(name, reader)
            return queue
        notes = queue["metadata"].get("annotations") or {}
        if request.old is None or (request.old["metadata"].get("annotations") or {}) != notes:
            wrong = [cause(p.field, p.mend) for p in queue_policy.problems(notes)]
            wrong += [cause(p.field, p.mend) for p in notify.problems(notes)]
            if wrong:
                raise refusal(kinds.QUEUE, name, wrong)
        if request.old is not None and request.old.get("spec") == queue.get("spec"):
            return queue
        causes = quantity_causes(queue)
        if not causes:
            causes = self._place_causes(queue, name, reader)
        if causes:
            raise refusal(kinds.QUEUE, name, causes)
        return queue

    def _may_go(self, name: str, reader: Port) -> None:
        children = [
            q["metadata"]["name"]
            for q in reader.list(kinds.QUEUE).items
            if (q.get("spec") or {}).get("parentQueue") == name
            and not q["metadata"].get("deletionTimestamp")
        ]
        if children:
            mend = f"has child queues ({_few(children)}): delete them or give them another parent"
            raise refusal(kinds.QUEUE, name, [cause("metadata.name", mend, "FieldValueForbidden")])

    def _place_causes(self, queue: Object, name: str, reader: Port) -> list[Object]:
        parent = (queue.get("spec") or {}).get("parentQueue") or ""
        if not parent:
            return []
        field = "spec.parentQueue"
        if parent == name:
            return [cause(field, "a queue cannot be its own parent: name another queue or none")]
        try:
            reader.get(kinds.QUEUE, parent)
        except NotFound:
            mend = f"queue {parent!r} does not exist: create it first or name another"
            return [cause(field, mend, "FieldValueNotFound")]
        parent_of = {
            q["metadata"]["name"]: (q.get("spec") or {}).get("parentQueue") or ""
            for q in reader.list(kinds.QUEUE).items
        }
        parent_of[name] = parent
        loop = cycle_through(name, parent_of)
        if loop:
            text = " -> ".join([*loop, name])
            return [cause(field, f"makes a cycle ({text}): name another parent")]
        depth, above = 1, parent
        while above and depth <= _DEEPEST:
            depth, above = depth + 1, parent_of.get(above, "")
        if depth > _DEEPEST:
            return [cause(field, f"makes the tree deeper than {_DEEPEST} levels")]
        return []


def quantity_causes(queue: Object) -> list[Object]:
    """What is wrong with the numbers of a Queue."""
    spec: Any = queue.get("spec")
    if not isinstance(spec, dict) or not isinstance(spec.get("resources"), dict):
        mend = "is required: give gpu, cpu and memory a quota, limit and overQuotaWeight"
        return [cause("spec.resources", mend, "FieldValueRequired")]
    causes: list[Object] = []
    priority = spec.get("priority")
    if priority is not None and (
        isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) >= 2**31
    ):
        causes.append(cause("spec.priority", f"{priority!r} is not a 32-bit integer"))
    for key in ("preemptMinRuntime", "reclaimMinRuntime"):
        try:
            min_runtime(spec, key)
        except Malformed as error:
            causes.append(cause(error.field, error.mend))
    for name, _ in RESOURCES:
        share = spec["resources"].get(name)
        if share is None:
            continue
        path = f"spec.resources.{name}"
        if not isinstance(share, dict):
            causes.append(cause(path, "must hold quota, limit and overQuotaWeight"))
            continue
        found = _share_causes(share, path)
        causes += found or _order_causes(share, path)
    return causes


def _share_causes(share: dict[str, Any], path: str) -> list[Object]:
    causes: list[Object] = []
    for key in ("quota", "limit", "overQuotaWeight"):
        value = share.get(key)
        why = "" if value is None else quantity_error(value)
        if why:
            causes.append(cause(f"{path}.{key}", why))
    return causes


def _order_causes(share: dict[str, Any], path: str) -> list[Object]:
    quota = share.get("quota") or 0
    limit = share.get("limit")
    if limit == -1 or quota == -1 or quota <= (limit or 0):
        return []
    if limit is None:
        mend = f"is not set, which means 0 and is below the quota of {quota:g}: write -1 for none"
        return [cause(f"{path}.limit", mend, "FieldValueRequired")]
    mend = f"{quota:g} is above the limit of {limit:g}: lower it or raise the limit"
    return [cause(f"{path}.quota", mend)]


def _few(names: list[str]) -> str:
    some = ", ".join(sorted(names)[:3])
    return some if len(names) <= 3 else f"{some} and {len(names) - 3} more"

"""The plan as rows for a table, and as the JSON of `kai plan -o json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .groups import SubGroup, Topology
from .plan import Gang, WorkloadPlan

COLUMNS = (
    "FILE",
    "KIND",
    "NAMESPACE",
    "NAME",
    "GANG",
    "MIN",
    "PODS",
    "QUEUE",
    "PRIORITY",
    "REQUESTS",
)


def as_objects(plans: Sequence[WorkloadPlan]) -> list[dict[str, Any]]:
    """One object per workload, as `-o json` prints them."""
    return [
        {
            "file": plan.file,
            "apiVersion": plan.api_version,
            "kind": plan.kind,
            "namespace": plan.namespace,
            "name": plan.name,
            "error": plan.error,
            "gangs": [_gang(gang) for gang in plan.gangs],
        }
        for plan in plans
    ]


def _gang(gang: Gang) -> dict[str, Any]:
    return {
        "name": gang.name,
        "minMember": gang.min_member,
        "queue": gang.queue,
        "priorityClassName": gang.priority_class,
        "preemptible": gang.preemptible,
        "topology": _topology(gang.topology),
        "subGroups": [_sub_group(sub) for sub in gang.sub_groups],
        "pods": gang.pods,
        "requests": gang.requests,
        **({"claims": gang.claims} if gang.claims else {}),
    }


def _sub_group(sub: SubGroup) -> dict[str, Any]:
    return {
        "name": sub.name,
        "parent": sub.parent,
        "minMember": sub.min_member,
        "minSubGroup": sub.min_sub_group,
        "topology": _topology(sub.topology),
    }


def _topology(constraint: Topology | None) -> dict[str, str | None] | None:
    if not constraint:
        return None
    return {
        "name": constraint.name or None,
        "required": constraint.required or None,
        "preferred": constraint.preferred or None,
    }


def rows(plans: Sequence[WorkloadPlan]) -> list[tuple[str, ...]]:
    """A row per gang, or one with the error; cells in the order of COLUMNS."""
    found: list[tuple[str, ...]] = []
    for plan in plans:
        head = (plan.file, plan.kind, plan.namespace, plan.name)
        if plan.error is not None:
            found.append((*head, f"error: {plan.error}", "", "", "", "", ""))
        elif not plan.gangs:
            found.append((*head, "<none>", "0", "0", "", "", ""))
        for gang, times in _counted(plan.gangs):
            name = gang.name if times == 1 else f"{gang.name} (x{times})"
            found.append(
                (
                    *head,
                    name,
                    str(gang.min_member),
                    str(gang.pods),
                    gang.queue,
                    gang.priority_class + ("" if gang.preemptible else " (non-preemptible)"),
                    ", ".join(f"{k}={v}" for k, v in (*gang.requests.items(), *gang.claims.items()))
                    or "none",
                )
            )
    return found


def _counted(gangs: Sequence[Gang]) -> list[tuple[Gang, int]]:
    """Gangs in order, equal ones (the pods of a Deployment) once with their number."""
    found: list[tuple[Gang, int]] = []
    for gang in gangs:
        if found and found[-1][0] is gang:
            found[-1] = (gang, found[-1][1] + 1)
        else:
            found.append((gang, 1))
    return found


def to_table(plans: Sequence[WorkloadPlan]) -> str:
    """Plain text, a line per gang; errors take the width they need."""
    lines = [COLUMNS, *rows(plans)]
    whole = [line for line in lines if not line[4].startswith("error: ")]
    widths = [max(len(line[i]) for line in whole) for i in range(len(COLUMNS))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )

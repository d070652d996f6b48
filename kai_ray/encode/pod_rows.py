"""One pod as a row: state, place, gang; shapes and peers are joined in classes.py."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from kai_ray.api import labels as names
from kai_ray.cluster.clock import epoch
from kai_ray.cluster.port import Object
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import TaskState

from .problems import Malformed, text

NO_PRIORITY = -(2**63)
NEVER = float("inf")

_FIRST_ROLES = ("master", "launcher")


class Standing(NamedTuple):
    """Where a pod stands, without names resolved."""

    state: int
    node: str  # "" = none
    stuck_s: float  # from when on a releasing pod counts as stuck


def standing(pod: Object, assumed_node: str, stuck_after_s: float) -> Standing | None:
    """None for pods that neither hold nor want anything."""
    meta = pod["metadata"]
    spec = pod["spec"]
    status = pod.get("status")
    phase = status.get("phase") if status else None
    node = text(spec.get("nodeName"), "spec.nodeName")
    if phase == "Failed":
        return None
    if phase == "Succeeded":
        return Standing(TaskState.SUCCEEDED, node, NEVER)
    leaving = meta.get("deletionTimestamp")
    if leaving:
        if not node:
            return None
        overdue = seconds(leaving) + stuck_after_s if phase == "Running" else NEVER
        return Standing(TaskState.RELEASING, node, overdue)
    if node:
        return Standing(TaskState.RUNNING if phase == "Running" else TaskState.BOUND, node, NEVER)
    if assumed_node:
        return Standing(TaskState.BINDING, assumed_node, NEVER)
    if spec.get("schedulingGates"):
        return Standing(TaskState.GATED, "", NEVER)
    return Standing(TaskState.PENDING, "", NEVER)


#: How the condition begins that we write together with the node that a pod is next in line for.
NEXT_IN_LINE = tuple(
    f"{reason.word}: " for reason in (Reason.WAITING_FOR_VICTIMS, Reason.WAITING_FOR_RELEASE)
)


def nominated(status: dict[str, Any]) -> str:
    """The node that somebody else has named for a waiting pod; raises Malformed.

    What we have named ourselves is for people: room that is held stands on the PodGroup, and a pod
    whose turn comes earlier elsewhere must not wait for the node that it was told.
    """
    node = text(status.get("nominatedNodeName"), "status.nominatedNodeName")
    if not node:
        return ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return "" if str(condition.get("message")).startswith(NEXT_IN_LINE) else node
    return node


def role(labels: dict[str, str] | None) -> int:
    """0 for the pod that the others of its gang need first, else 1."""
    if labels and (
        labels.get(names.TRAINING_JOB_ROLE) in _FIRST_ROLES
        or labels.get(names.RAY_NODE_TYPE) == "head"
    ):
        return 0
    return 1


def task_priority(labels: dict[str, str] | None) -> int:
    text = labels.get(names.TASK_PRIORITY) if labels else None
    if text is None:
        return NO_PRIORITY
    try:
        return max(-(2**31), min(2**31, int(text)))
    except ValueError:
        return NO_PRIORITY


@lru_cache(maxsize=65_536)
def seconds(text: Any) -> float:
    """A timestamp of the API in seconds; raises Malformed."""
    try:
        return epoch(text)
    except (ValueError, TypeError, OverflowError):
        raise Malformed("metadata", f"{text!r} is not an RFC 3339 timestamp") from None


def created(meta: dict[str, Any]) -> float:
    text = meta.get("creationTimestamp")
    return seconds(text) if text else 0.0

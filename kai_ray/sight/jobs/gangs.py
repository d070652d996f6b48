"""Gangs as users see them: a PodGroup with its pods counted."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass

from kai_ray.api import labels as L
from kai_ray.cluster.port import Object
from kai_ray.sight.jobs import pods as P


@dataclass(frozen=True)
class Evicted:
    """Why a gang had to leave: the rule's word, for whom in a sentence, and when."""

    rule: str
    message: str
    since: str


@dataclass(frozen=True)
class Hold:
    """Room that others leave for a gang: `victims` as "Kind name (Rule)"; kept until then."""

    victims: tuple[str, ...]
    until: str


@dataclass(frozen=True)
class Gang:
    """One PodGroup and where its pods stand."""

    name: str
    queue: str
    minimum: int
    pods: int
    running: int
    bound: int
    succeeded: int
    failed: int
    gpus: float
    priority_class: str
    reason: str
    message: str
    created: str
    nodes: tuple[str, ...]
    subgroups: tuple[tuple[str, int, int, int], ...]  # name, minimum, pods, running
    evicted: Evicted | None = None  # had to leave, and has not started since
    hold: Hold | None = None
    topology: str = ""  # what it asks of the topology, in words

    @property
    def wanted(self) -> int:
        return max(self.minimum, self.pods)

    @property
    def status(self) -> str:
        alive = self.pods - self.succeeded - self.failed
        if self.pods and not alive:
            return "Failed" if self.failed else "Succeeded"
        if self.running and self.running + self.succeeded >= self.minimum:
            return "Running"
        if self.running or self.bound:
            return "Starting"
        return "Waiting"


def gang(group: Object, pods: list[Object]) -> Gang:
    """A PodGroup with its pods counted; one that leaves counts until there are others."""
    spec = group.get("spec") or {}
    pods = [p for p in pods if not p["metadata"].get("deletionTimestamp")] or pods
    by_subgroup: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        name = (pod["metadata"].get("labels") or {}).get(L.SUBGROUP) or ""
        by_subgroup[name].append(pod)
    subgroups = tuple(
        (
            s["name"],
            int(s.get("minMember") or s.get("minSubGroup") or 0),
            len(by_subgroup[s["name"]]),
            sum(P.running(p) for p in by_subgroup[s["name"]]),
        )
        for s in spec.get("subGroups") or []
    )
    reason, message = waiting_for(group)
    alive = [p for p in pods if not P.finished(p)]
    running = sum(P.running(p) for p in pods)
    return Gang(
        name=group["metadata"]["name"],
        queue=spec.get("queue") or "",
        minimum=minimum(spec),
        pods=len(pods),
        running=running,
        bound=sum(1 for p in alive if P.node(p) and not p["metadata"].get("deletionTimestamp")),
        succeeded=sum(P.phase(p) == "Succeeded" for p in pods),
        failed=sum(P.phase(p) == "Failed" for p in pods),
        gpus=_gpus(group, alive or pods),
        priority_class=spec.get("priorityClassName") or "",
        reason=reason,
        message=message,
        created=group["metadata"].get("creationTimestamp") or "",
        nodes=tuple(sorted({n for p in pods if (n := P.node(p))})),
        evicted=evicted(group),
        hold=hold(group),
        topology=topology(spec),
        subgroups=subgroups,
    )


def _gpus(group: Object, pods: list[Object]) -> float:
    """GPUs of the pods; those that are claimed are known to the PodGroup's status only."""
    found = sum(P.gpus(p) for p in pods)
    if not any((p.get("spec") or {}).get("resourceClaims") for p in pods):
        return found
    asked = ((group.get("status") or {}).get("resourcesStatus") or {}).get("requested") or {}
    try:
        return max(found, float(asked.get(L.NVIDIA_GPU) or 0))
    except (TypeError, ValueError):
        return found


def minimum(spec: Object) -> int:
    """Pods that must run together: the least that satisfies the tree, or `minMember`."""
    children: dict[str, list[Object]] = defaultdict(list)
    for sub in spec.get("subGroups") or []:
        children[sub.get("parent") or ""].append(sub)
    if not children:
        return int(spec.get("minMember") or 1)

    def least(name: str, wanted: int | None) -> int:
        below = sorted(
            least(s["name"], s.get("minSubGroup"))
            if s["name"] in children
            else int(s.get("minMember", 1))
            for s in children[name]
        )
        return sum(below[:wanted])

    return least("", spec.get("minSubGroup"))


def evicted(group: Object) -> Evicted | None:
    """What the condition Evicted says while it holds."""
    for condition in (group.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "Evicted" and condition.get("status") == "True":
            words = (condition.get(k) or "" for k in ("reason", "message", "lastTransitionTime"))
            return Evicted(*words)
    return None


def hold(group: Object) -> Hold | None:
    """The room that is kept for a gang; None also for a note that cannot be read."""
    note = (group["metadata"].get("annotations") or {}).get(L.HOLD)
    try:
        found = json.loads(note) if note else {}
        victims, until = found.get("victims") or (), found.get("until")
    except (ValueError, AttributeError):
        return None
    return Hold(tuple(map(str, victims)), str(until)) if until else None


def topology(spec: Object) -> str:
    """What the gang asks of the topology: "one rack of cluster, if possible one host"."""
    bond = spec.get("topologyConstraint") or {}
    name = bond.get("topology") or ""
    required, preferred = bond.get("requiredTopologyLevel"), bond.get("preferredTopologyLevel")
    parts = [f"one {required}"] * bool(required) + [f"if possible one {preferred}"] * bool(
        preferred
    )
    return f"{', '.join(parts)} (Topology {name})" if name and parts else ""


def waiting_for(group: Object) -> tuple[str, str]:
    """(reason, message) of a gang that is not placed; empty once it is."""
    for condition in (group.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "Scheduled" and condition.get("status") == "False":
            return condition.get("reason") or "", condition.get("message") or ""
    return "", ""

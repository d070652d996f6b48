"""What both worlds must agree on, without the names and times that nobody promised."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from kai_ray.cluster import resources as r
from kai_ray.cluster.port import Object, Port
from tests.real.api.differential.worlds import RACK

_UID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: Parts of a PodGroup's spec that derive from the workload.
_SPEC = (
    "queue",
    "minMember",
    "priorityClassName",
    "preemptibility",
    "subGroups",
    "topologyConstraint",
)
_QUEUE = ("allocated", "requested", "allocatedNonPreemptible")


def take(port: Port, namespace: str, queues: tuple[str, ...]) -> dict[str, Any]:
    """Everything in a namespace, and the queues of that name."""
    pods = port.list(r.POD, namespace).items
    return {
        "pods": _pods(port, pods),
        "groups": {_plain(g): _group(g) for g in port.list(r.POD_GROUP, namespace).items},
        "queues": {name: _queue(port.get(r.QUEUE, name)) for name in queues},
        "events": sorted(_events(port, namespace, {p["metadata"]["name"]: p for p in pods})),
    }


def _pods(port: Port, pods: list[Object]) -> dict[str, Any]:
    """Per workload: how many pods are in which state, for what reason, in how many racks."""
    racks = {
        n["metadata"]["name"]: (n["metadata"].get("labels") or {}).get(RACK)
        for n in port.list(r.NODE).items
    }
    states: dict[str, Counter[str]] = {}
    places: dict[str, set[str | None]] = {}
    for pod in pods:
        owner = _owner(pod)
        phase = (pod.get("status") or {}).get("phase")
        states.setdefault(owner, Counter())[f"{phase} {_why(pod)}".strip()] += 1
        if pod["spec"].get("nodeName"):
            places.setdefault(owner, set()).add(racks.get(pod["spec"]["nodeName"]))
    return {
        owner: {"states": dict(found), "racks": len(places.get(owner, ()))}
        for owner, found in sorted(states.items())
    }


def _why(pod: Object) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] != "True":
            return str(condition.get("reason") or "")
    return ""


def _owner(pod: Object) -> str:
    labels = pod["metadata"].get("labels") or {}
    return labels.get("job-name") or pod["metadata"]["name"]


def _group(group: Object) -> dict[str, Any]:
    spec, status = group.get("spec") or {}, group.get("status") or {}
    return {
        "spec": {k: spec[k] for k in _SPEC if k in spec},
        "phase": status.get("phase"),
        "conditions": sorted(
            (c["type"], c["status"], c.get("reason") or "") for c in status.get("conditions") or ()
        ),
        "scheduling": sorted(
            (c.get("type") or "", c.get("reason") or "")
            for c in status.get("schedulingConditions") or ()
        ),
    }


def _queue(queue: Object) -> dict[str, Any]:
    status = queue.get("status") or {}
    return {k: status.get(k) for k in _QUEUE}


def _events(port: Port, namespace: str, pods: dict[str, Object]) -> set[tuple[str, str, str]]:
    """Which of our reasons were told of which object; how often and how worded is left open."""
    found: set[tuple[str, str, str]] = set()
    for event in port.list(r.EVENT, namespace).items:
        if event.get("reportingComponent") != "kai-scheduler":
            continue
        about = event["involvedObject"]
        if about["kind"] == "Pod":
            continue  # pods of a Job have chance names and come and go
        found.add((about["kind"], _UID.sub("", about["name"]), event["reason"]))
    return found


def _plain(obj: Object) -> str:
    return _UID.sub("", obj["metadata"]["name"])

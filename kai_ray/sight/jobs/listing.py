"""Jobs as users see them: one row a workload, from its PodGroups, their pods and their owner.

A workload may have several gangs (a RayService while it upgrades, the phases of a JobSet); the row
sums them up. A workload that is suspended has no gang and is listed all the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kai_ray.api import labels as L
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import ApiError, Forbidden, NotFound, Object, Port, Resource, Write
from kai_ray.cluster.selectors import matches, parse_labels
from kai_ray.cluster.suspension import SUSPEND, is_suspended
from kai_ray.cluster.wrappers import Name, wrapper
from kai_ray.podgrouper.outcome import outcome
from kai_ray.sight.jobs import pods as P
from kai_ray.sight.jobs.gangs import Evicted, Gang, Hold, gang
from kai_ray.sight.jobs.owners import controlled, owner_of

#: A job that does not name a priority class has this one (KAI's class "train").
DEFAULT_PRIORITY = 50
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Job:
    """One workload. `position` counts from 1 among the waiting jobs of its queue."""

    namespace: str
    name: str
    kind: str
    api_version: str
    queue: str
    priority: int
    status: str
    reason: str
    message: str
    created: str
    gangs: tuple[Gang, ...]
    labels: dict[str, str]
    suspended: bool = False
    evicted: Evicted | None = None  # had to leave, and has not started since
    hold: Hold | None = None
    position: int | None = None
    uid: str = ""  # of the workload's object; empty where that is not known

    @property
    def resource(self) -> Resource | None:
        return R.BY_KIND.get((self.api_version, self.kind))

    @property
    def gpus(self) -> float:
        return sum((g.gpus for g in self.gangs), 0.0)

    @property
    def running(self) -> int:
        return sum(g.running for g in self.gangs)

    @property
    def wanted(self) -> int:
        return sum(g.wanted for g in self.gangs)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(sorted({n for g in self.gangs for n in g.nodes}))

    @property
    def printed_name(self) -> str:
        """`rayjob.ray.io/name`, which kubectl takes."""
        group = self.api_version.rpartition("/")[0]
        kind = self.kind.lower()
        return f"{kind}.{group}/{self.name}" if group else f"{kind}/{self.name}"

    def document(self) -> dict[str, Any]:
        """The job as `-o json` prints it."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "queue": self.queue,
            "priority": self.priority,
            "gpus": int(self.gpus) if self.gpus.is_integer() else self.gpus,
            "pods": {"running": self.running, "wanted": self.wanted},
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "position": self.position,
            "created": self.created,
            "nodes": list(self.nodes),
            "evicted": asdict(self.evicted) if self.evicted else None,
            "waitsForVictims": asdict(self.hold) if self.hold else None,
            "gangs": [
                {
                    "name": g.name,
                    "minMember": g.minimum,
                    "pods": g.pods,
                    "running": g.running,
                    "succeeded": g.succeeded,
                    "failed": g.failed,
                    "status": g.status,
                }
                for g in self.gangs
            ],
        }


@dataclass
class World:
    """The objects that jobs are read from."""

    groups: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    owners: dict[Resource, list[Object]] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)


def read(port: Port, namespace: str | None, *, labels: str = "") -> list[Job]:
    """Every job of a namespace (None: of all), by name. `labels` selects workloads."""
    rules = parse_labels(labels) if labels else ()
    first: list[Resource] = [R.POD_GROUP, R.POD, R.PRIORITY_CLASS, *SUSPEND]
    found = _lists(port, first, namespace)
    groups = found[R.POD_GROUP] or []
    further = sorted(
        {
            resource
            for group in groups
            if (resource := R.BY_KIND.get(owner_of(group)[:2])) and resource not in found
        }
    )
    found |= _lists(port, further, namespace)
    owners = {r: found[r] or [] for r in (*SUSPEND, *further) if r not in (R.POD, R.POD_GROUP)}
    priorities = {
        c["metadata"]["name"]: int(c.get("value", 0)) for c in found[R.PRIORITY_CLASS] or []
    }
    jobs = build(World(groups, found[R.POD] or [], owners, priorities))
    return [j for j in jobs if matches(rules, j.labels)] if rules else jobs


def _lists(
    port: Port, wanted: list[Resource], namespace: str | None
) -> dict[Resource, list[Object]]:
    """One list a kind, side by side. What a cluster does not serve or show has no objects, but
    pods and gangs must be readable."""
    answers = port.batch(
        [Write(port.list, (r, namespace if r.namespaced else None)) for r in wanted]
    )
    found: dict[Resource, list[Object]] = {}
    for resource, answer in zip(wanted, answers, strict=True):
        missing = isinstance(answer, NotFound)
        hidden = isinstance(answer, Forbidden) and resource not in (R.POD, R.POD_GROUP)
        if missing or hidden:
            found[resource] = []
        elif isinstance(answer, ApiError):
            raise answer
        else:
            found[resource] = answer.items
    return found


def build(world: World) -> list[Job]:
    """The jobs in those objects, by namespace and name."""
    members: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for pod in world.pods:
        name = P.gang_name(pod)
        if name:
            members[pod["metadata"]["namespace"], name].append(pod)
    owned: dict[Name, list[Object]] = defaultdict(list)
    for group in world.groups:
        api_version, kind, name = owner_of(group)
        owned[api_version, kind, group["metadata"]["namespace"], name].append(group)
    known: dict[Name, tuple[Resource, Object]] = {}
    for resource, objects in world.owners.items():
        for obj in objects:
            meta = obj["metadata"]
            key = (resource.api_version, resource.kind, meta.get("namespace", ""), meta["name"])
            known[key] = (resource, obj)
    by_name = {key: obj for key, (_, obj) in known.items()}
    for key in list(owned):
        above = wrapper(key, by_name.get)
        if above != key:
            owned[above] += owned.pop(key)
    for key, (resource, obj) in known.items():
        if key not in owned and is_suspended(resource, obj) and not controlled(obj):
            owned[key] = []
    jobs = [
        job_of(key, groups, members, known.get(key), world.priorities)
        for key, groups in owned.items()
    ]
    return _with_positions(sorted(jobs, key=lambda j: (j.namespace, j.name, j.kind)))


def job_of(
    key: Name,
    groups: list[Object],
    members: dict[tuple[str, str], list[Object]],
    owner: tuple[Resource, Object] | None,
    priorities: dict[str, int],
) -> Job:
    """One workload from its PodGroups, their pods by (namespace, PodGroup) and itself, if known.

    It has no position yet.
    """
    api_version, kind, namespace, name = key
    gangs = tuple(
        gang(g, members.get((namespace, g["metadata"]["name"]), []))
        for g in sorted(groups, key=lambda g: g["metadata"]["name"])
    )
    suspended = owner is not None and (is_suspended(*owner) or _told_to_stop(owner[1]))
    status = _status(gangs, outcome(owner[1]) if owner else "", suspended)
    evicted = next((g.evicted for g in gangs if g.evicted), None)
    if not _is_out(status, evicted, owner[1] if owner else {}):
        evicted = None
    elif evicted:
        status = "Evicted"
    created = owner[1]["metadata"].get("creationTimestamp", "") if owner else ""
    over = status in (*ENDED, "Suspended")
    waiting = None if over else next((g for g in gangs if g.reason), None)
    reason, message = (waiting.reason, waiting.message) if waiting else ("", "")
    hold = next((g.hold for g in gangs if g.hold), None) if status == "Waiting" else None
    if evicted:
        reason, message = evicted.rule, evicted.message
    elif hold:
        whom = ", ".join(hold.victims) or "others"
        reason = "WaitingForVictims"
        message = f"pods of {whom} leave for it; their room is kept for it until {hold.until}"
    queue = gangs[0].queue if gangs else _labels(owner[1] if owner else {}).get(L.QUEUE, "")
    classes = [g.priority_class for g in gangs if g.priority_class]
    return Job(
        namespace=namespace,
        name=name,
        kind=kind,
        api_version=api_version,
        queue=queue,
        priority=priorities.get(classes[0], DEFAULT_PRIORITY) if classes else DEFAULT_PRIORITY,
        status=status,
        reason=reason,
        message=message,
        created=created or min((g.created for g in gangs), default=""),
        gangs=gangs,
        labels=_labels(owner[1] if owner else groups[0]),
        suspended=suspended,
        evicted=evicted,
        hold=hold,
        uid=(owner[1]["metadata"].get("uid") or "") if owner else "",
    )


def _told_to_stop(owner: Object) -> bool:
    """Suspended by annotation: kinds that have no field for it."""
    annotations = (owner.get("metadata") or {}).get("annotations") or {}
    return annotations.get(L.SUSPENDED) == "true"


def _is_out(status: str, evicted: Evicted | None, owner: Object) -> bool:
    """Whether an evicted workload is away: in the queue again, or stopped by the scheduler."""
    if evicted is None or status not in ("Waiting", "Suspended"):
        return False
    if status == "Waiting":
        return True
    return L.RESUME_AT in ((owner.get("metadata") or {}).get("annotations") or {})


def _labels(obj: Object) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _status(gangs: tuple[Gang, ...], ended: str, suspended: bool) -> str:
    if ended:
        return ended
    states = {g.status for g in gangs}
    if suspended and "Running" not in states:
        return "Suspended"
    if states and states <= set(ENDED):
        return "Failed" if "Failed" in states else "Succeeded"
    live = states - set(ENDED)
    for status in ("Running", "Starting", "Waiting"):
        if live == {status}:
            return status
    return "Starting" if live else "Waiting"


def _with_positions(jobs: Iterable[Job]) -> list[Job]:
    """Numbers the waiting jobs of each queue: higher priority first, then older, then by name."""
    jobs = list(jobs)
    waiting: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.status in ("Waiting", "Evicted"):
            waiting[job.queue].append(job)
    places: dict[int, int] = {}
    for line in waiting.values():
        line.sort(key=lambda j: (-j.priority, j.created, j.name))
        places |= {id(job): place for place, job in enumerate(line, 1)}
    return [replace(j, position=places[id(j)]) if id(j) in places else j for j in jobs]

"""Jobs as users see them: one row a workload, from its PodGroups, their pods and their owner.

A workload may have several gangs (a RayService while it upgrades, the phases of a JobSet); the row
sums them up. A workload that is suspended has no gang and is listed all the same.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from kai_ray.api import labels as L
from kai_ray.cli import output
from kai_ray.cli.output import Column
from kai_ray.cli.suspension import SUSPEND, is_suspended
from kai_ray.cli.views import pods as P
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import ApiError, NotFound, Object, Port, Resource, Write
from kai_ray.cluster.selectors import matches, parse_labels

#: A job that does not name a priority class has this one (KAI's class "train").
DEFAULT_PRIORITY = 50
ENDED = ("Succeeded", "Failed")
#: Kinds whose children are jobs of their own.
SERIES = ("CronJob", "RayCronJob")
#: Owners above owners, at most.
DEEPEST = 8

#: (apiVersion, kind, namespace, name)
Name = tuple[str, str, str, str]


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
    position: int | None = None

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


COLUMNS: tuple[Column[Job], ...] = (
    Column("NAME", lambda j: j.name),
    Column("QUEUE", lambda j: j.queue),
    Column("KIND", lambda j: j.kind),
    Column("GPUS", lambda j: output.number(j.gpus)),
    Column("READY", lambda j: f"{j.running}/{j.wanted}"),
    Column("STATUS", lambda j: j.status),
    Column("REASON", lambda j: j.reason),
    Column("POS", lambda j: str(j.position) if j.position else ""),
    Column("PRIORITY", lambda j: str(j.priority), wide=True),
    Column("MIN", lambda j: str(sum(g.minimum for g in j.gangs)), wide=True),
    Column("NODES", lambda j: ",".join(j.nodes), wide=True),
    Column("MESSAGE", lambda j: j.message, wide=True),
    Column("AGE", lambda j: output.age(j.created)),
)
WITH_NAMESPACE: tuple[Column[Job], ...] = (Column("NAMESPACE", lambda j: j.namespace), *COLUMNS)


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
    """One list a kind, side by side; a kind that the cluster does not serve has no objects."""
    answers = port.batch(
        [Write(port.list, (r, namespace if r.namespaced else None)) for r in wanted]
    )
    found: dict[Resource, list[Object]] = {}
    for resource, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, NotFound) and resource not in (R.POD, R.POD_GROUP):
            found[resource] = []
        elif isinstance(answer, ApiError):
            if resource is R.POD_GROUP and isinstance(answer, NotFound):
                found[resource] = []
                continue
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
    for key in list(owned):
        above = _wrapper(key, known)
        if above != key:
            owned[above] += owned.pop(key)
    for key, (resource, obj) in known.items():
        if key not in owned and is_suspended(resource, obj) and not _controlled(obj):
            owned[key] = []
    jobs = [
        _job(key, groups, members, known.get(key), world.priorities)
        for key, groups in owned.items()
    ]
    return _with_positions(sorted(jobs, key=lambda j: (j.namespace, j.name, j.kind)))


def _wrapper(key: Name, known: dict[Name, tuple[Resource, Object]]) -> Name:
    """The workload that the user wrote: a TrainJob for its JobSet. Runs of a CronJob stay apart."""
    for _ in range(DEEPEST):
        if key not in known:
            return key
        above = next(
            (
                (r["apiVersion"], r["kind"], key[2], r["name"])
                for r in known[key][1]["metadata"].get("ownerReferences") or []
                if r.get("controller") and r["kind"] not in SERIES
            ),
            None,
        )
        if above is None or above not in known:
            return key
        key = above
    return key


def _job(
    key: Name,
    groups: list[Object],
    members: dict[tuple[str, str], list[Object]],
    owner: tuple[Resource, Object] | None,
    priorities: dict[str, int],
) -> Job:
    api_version, kind, namespace, name = key
    gangs = tuple(
        gang(g, members.get((namespace, g["metadata"]["name"]), []))
        for g in sorted(groups, key=lambda g: g["metadata"]["name"])
    )
    suspended = owner is not None and is_suspended(*owner)
    status = _status(gangs, outcome(owner[1]) if owner else "", suspended)
    created = owner[1]["metadata"].get("creationTimestamp", "") if owner else ""
    over = status in (*ENDED, "Suspended")
    waiting = None if over else next((g for g in gangs if g.reason), None)
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
        reason=waiting.reason if waiting else "",
        message=waiting.message if waiting else "",
        created=created or min((g.created for g in gangs), default=""),
        gangs=gangs,
        labels=_labels(owner[1] if owner else groups[0]),
        suspended=suspended,
    )


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


def gang(group: Object, pods: list[Object]) -> Gang:
    """A PodGroup with its pods counted."""
    spec = group.get("spec") or {}
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
        bound=sum(1 for p in alive if P.node(p)),
        succeeded=sum(P.phase(p) == "Succeeded" for p in pods),
        failed=sum(P.phase(p) == "Failed" for p in pods),
        gpus=sum(P.gpus(p) for p in alive or pods),
        priority_class=spec.get("priorityClassName") or "",
        reason=reason,
        message=message,
        created=group["metadata"].get("creationTimestamp") or "",
        nodes=tuple(sorted({n for p in pods if (n := P.node(p))})),
        subgroups=subgroups,
    )


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


def waiting_for(group: Object) -> tuple[str, str]:
    """(reason, message) of a gang that is not placed; empty once it is."""
    for condition in (group.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "Scheduled" and condition.get("status") == "False":
            return condition.get("reason") or "", condition.get("message") or ""
    return "", ""


def owner_of(group: Object) -> tuple[str, str, str]:
    """(apiVersion, kind, name) of the workload that a PodGroup was made for."""
    meta = group["metadata"]
    note = (meta.get("annotations") or {}).get(L.TOP_OWNER_METADATA)
    if note:
        top = _parse(note)
        if top.get("kind") and top.get("name"):
            group_name, version = top.get("group") or "", top.get("version") or "v1"
            api_version = f"{group_name}/{version}" if group_name else version
            return str(top.get("apiVersion") or api_version), str(top["kind"]), str(top["name"])
    for reference in meta.get("ownerReferences") or []:
        return reference["apiVersion"], reference["kind"], reference["name"]
    return R.POD_GROUP.api_version, R.POD_GROUP.kind, meta["name"]


def _parse(note: str) -> dict[str, str]:
    """The annotation is JSON or (KAI's own) YAML of flat fields, quoted where they must be."""
    try:
        top = json.loads(note)
    except ValueError:
        pairs = (line.split(": ", 1) for line in note.splitlines() if ": " in line)
        top = {key: value.strip().strip("\"'") for key, value in pairs}
    return {k: v for k, v in top.items() if isinstance(v, str)} if isinstance(top, dict) else {}


def _controlled(obj: Object) -> bool:
    return any(r.get("controller") for r in obj["metadata"].get("ownerReferences") or [])


#: Values of a workload's status that mean its end.
_SUCCESS = {"SUCCEEDED", "Complete", "Completed", "Succeeded", "SuccessCriteriaMet"}
_FAILURE = {"FAILED", "STOPPED", "Failed", "ValidationFailed"}


def outcome(owner: Object) -> str:
    """ "Succeeded" or "Failed" once a workload's own status says so, else ""."""
    status = owner.get("status") or {}
    for word in (status.get("jobStatus"), status.get("jobDeploymentStatus"), status.get("phase")):
        if word in _SUCCESS:
            return "Succeeded"
        if word in _FAILURE:
            return "Failed"
    for condition in status.get("conditions") or []:
        if condition.get("status") == "True":
            if condition.get("type") in _SUCCESS:
                return "Succeeded"
            if condition.get("type") in _FAILURE:
                return "Failed"
    return ""


def _with_positions(jobs: Iterable[Job]) -> list[Job]:
    """Numbers the waiting jobs of each queue: higher priority first, then older, then by name."""
    jobs = list(jobs)
    waiting: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.status == "Waiting":
            waiting[job.queue].append(job)
    places: dict[int, int] = {}
    for line in waiting.values():
        line.sort(key=lambda j: (-j.priority, j.created, j.name))
        places |= {id(job): place for place, job in enumerate(line, 1)}
    return [replace(j, position=places[id(j)]) if id(j) in places else j for j in jobs]

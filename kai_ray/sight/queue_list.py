"""Queues as users see them: quota, what is allocated, the fair share, in the order of the tree.

The three resources keep the Queue's own units: GPUs in devices, CPU in millicores, memory in MB
(10^6 bytes); -1 is unlimited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kai_ray.api import labels as L
from kai_ray.api import quantity
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object, Port

UNLIMITED = -1.0
DEFAULT_PRIORITY = 100


@dataclass(frozen=True)
class Amount:
    """One resource of a queue. `fair_share` is None where no scheduler has written one yet."""

    quota: float
    limit: float
    weight: float
    allocated: float
    requested: float
    fair_share: float | None

    @property
    def pending(self) -> float:
        return max(0.0, self.requested - self.allocated)

    @property
    def borrowed(self) -> float:
        return 0.0 if self.quota == UNLIMITED else max(0.0, self.allocated - self.quota)


@dataclass(frozen=True)
class Queue:
    """One queue. `depth` is 0 for a top-level queue."""

    name: str
    parent: str
    depth: int
    priority: int
    paused: bool
    gpu: Amount
    cpu: Amount
    memory: Amount
    created: str
    object: Object

    @property
    def annotations(self) -> Object:
        return self.object["metadata"].get("annotations") or {}

    @property
    def state(self) -> str:
        if L.DRAINED in self.annotations:
            return "Drained"
        if L.DRAIN_DEADLINE in self.annotations:
            return "Draining"
        return "Paused" if self.paused else "Active"


def read(port: Port, *, labels: str = "") -> list[Queue]:
    return build(port.list(R.QUEUE, labels=labels).items)


def build(objects: list[Object]) -> list[Queue]:
    """Parents before children, siblings by name; orphans and members of a cycle come last."""
    names = {o["metadata"]["name"] for o in objects}
    children: dict[str, list[Object]] = {}
    for obj in sorted(objects, key=lambda o: o["metadata"]["name"]):
        parent = parent_of(obj)
        children.setdefault(parent if parent in names else "", []).append(obj)
    ordered: list[Queue] = []
    pending = [(obj, 0) for obj in reversed(children.get("", []))]
    seen: set[str] = set()
    while pending:
        obj, depth = pending.pop()
        seen.add(obj["metadata"]["name"])
        ordered.append(queue(obj, depth))
        below = children.get(obj["metadata"]["name"], [])
        pending += [(child, depth + 1) for child in reversed(below)]
    ordered += [queue(o, 0) for o in objects if o["metadata"]["name"] not in seen]
    return ordered


def parent_of(obj: Object) -> str:
    return (obj.get("spec") or {}).get("parentQueue") or ""


def queue(obj: Object, depth: int = 0) -> Queue:
    meta, spec = obj["metadata"], obj.get("spec") or {}
    priority = spec.get("priority")
    return Queue(
        name=meta["name"],
        parent=parent_of(obj),
        depth=depth,
        priority=DEFAULT_PRIORITY if priority is None else int(priority),
        paused=(meta.get("annotations") or {}).get(L.QUEUE_PAUSED) == "true",
        gpu=_amount(obj, "gpu"),
        cpu=_amount(obj, "cpu"),
        memory=_amount(obj, "memory"),
        created=meta.get("creationTimestamp") or "",
        object=obj,
    )


def state_sentence(queue: Queue) -> str:
    deadline = queue.annotations.get(L.DRAIN_DEADLINE)
    return {
        "Drained": f"Drained: starts nothing, what ran was evicted at {deadline}",
        "Draining": f"Draining: starts nothing, what still runs at {deadline} is evicted",
        "Paused": "Paused: starts nothing new",
    }.get(queue.state, "Active")


_POLICIES = (
    ("Placement", L.PLACEMENT_STRATEGY),
    ("Default class", L.DEFAULT_PRIORITY_CLASS),
    ("Allowed classes", L.ALLOWED_PRIORITY_CLASSES),
    ("Node pools", L.NODE_POOLS),
    ("GPU types", L.GPU_TYPES),
    ("Zones in nodes", L.NODE_TOPOLOGY_POLICY),
    ("Max run time", L.MAX_RUN_TIME),
    ("Idle jobs", L.IDLE_JOBS),
    ("Protected hours", L.PROTECTED_HOURS),
    ("Notifies", L.NOTIFY),
    ("Notifies of", L.NOTIFY_ON),
    ("Long waits are", L.NOTIFY_AFTER),
)
_RUNTIMES = (
    ("Min runtime, preempt", "preemptMinRuntime"),
    ("Min runtime, reclaim", "reclaimMinRuntime"),
)


def policies(queue: Queue, all_queues: Sequence[Queue]) -> list[tuple[str, str]]:
    """What holds for the queue beyond amounts: its own word, else that of the nearest above it."""
    by_name = {other.name: other for other in all_queues}
    path = [queue]
    while path[-1].parent in by_name and len(path) <= len(by_name):
        path.append(by_name[path[-1].parent])
    found = [
        (title, _first(path, lambda q, key=key: _shown(key, q.annotations.get(key))))
        for title, key in _POLICIES
    ]
    found.append(("Reserved GPUs", str(queue.annotations.get(L.RESERVED_GPUS) or "")))
    for title, key in _RUNTIMES:
        stated = _first(path, lambda q, key=key: (q.object.get("spec") or {}).get(key))
        found.append((title, stated))
    return found


def _shown(key: str, text: str | None) -> str | None:
    """As it is written; of addresses that are told the host alone, since the rest is a password."""
    if key != L.NOTIFY or not text or "://" not in text:
        return text
    from kai_ray.sight.notify.address import label

    told = (part.strip() for part in text.split(","))
    return ", ".join(label(part) if "://" in part else part for part in told)


def _first(path: Sequence[Queue], stated: Callable[[Queue], object]) -> str:
    """The first word on the way up, and whose it is where it is not the queue's own."""
    for queue in path:
        value = stated(queue)
        if value not in (None, ""):
            return str(value) if queue is path[0] else f"{value} (from queue {queue.name})"
    return ""


def _amount(obj: Object, resource: str) -> Amount:
    spec = ((obj.get("spec") or {}).get("resources") or {}).get(resource) or {}
    status = obj.get("status") or {}
    fair = status.get("fairShare")  # names only what is not 0
    return Amount(
        quota=float(spec.get("quota", 0)),
        limit=float(spec.get("limit", 0)),
        weight=float(spec.get("overQuotaWeight", 0)),
        allocated=_in_units(resource, status.get("allocated")),
        requested=_in_units(resource, status.get("requested")),
        fair_share=None if fair is None else _in_units(resource, fair),
    )


def _status_key(resource: str, amounts: Object | None) -> str:
    if resource != "gpu" or amounts is None:
        return resource
    return next((k for k in ("gpu", *L.GPU_RESOURCES) if k in amounts), "gpu")


def _in_units(resource: str, amounts: Object | None) -> float:
    """A resource of a status list, in the units of the Queue's spec."""
    value = (amounts or {}).get(_status_key(resource, amounts))
    if value is None:
        return 0.0
    exact = float(quantity.parse(value))
    if exact == UNLIMITED:
        return UNLIMITED
    return exact * {"gpu": 1, "cpu": 1000, "memory": 1e-6}[resource]

"""Nodes as users see them: GPUs, what is free of them, and whether the node takes work."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from kai_ray.api import labels as L
from kai_ray.api import quantity
from kai_ray.cluster import resources as R
from kai_ray.cluster.port import Object, Port
from kai_ray.sight import claimed as devices
from kai_ray.sight.jobs import pods as P

MODEL = "nvidia.com/gpu.product"
ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class Card:
    """A GPU that pods share. `used` is the part of its memory that is given away."""

    group: str
    used: float
    pods: tuple[str, ...]


@dataclass(frozen=True)
class Node:
    """One node, or several equal ones folded into a row (`name` is then a list of ranges)."""

    name: str
    gpus: float
    used: float
    pods: int
    slots: int
    cpu: str
    memory: str
    model: str
    zone: str
    ready: bool
    cordoned: bool
    created: str
    object: Object
    count: int = 1
    cards: tuple[Card, ...] = ()  # those that pods share

    @property
    def free(self) -> float:
        return max(0.0, self.gpus - self.used)

    @property
    def fragment(self) -> str:
        """What the node is good for: all its GPUs at once, some, or none."""
        if not self.gpus:
            return ""
        if self.free >= self.gpus:
            return "whole"
        return "part" if self.free > 0 else "full"

    @property
    def state(self) -> str:
        states = ["Ready" if self.ready else "NotReady"]
        states += ["Cordoned"] * self.cordoned
        states += ["BadDevice"] * bool(self.bad_devices)
        states += ["Quarantined"] * (L.QUARANTINED_UNTIL in self._annotations)
        return ",".join(states)

    @property
    def quarantine(self) -> str:
        """Until when and why the node takes no pods; "" for any other node."""
        until = self._annotations.get(L.QUARANTINED_UNTIL)
        if not until:
            return ""
        return f"until {until}: {self._annotations.get(L.QUARANTINE_REASON) or 'it rejects pods'}"

    @property
    def bad_devices(self) -> tuple[str, ...]:
        """Devices that take no pods, until when and why."""
        notes = self._annotations
        if L.BAD_DEVICES not in notes and L.UNHEALTHY_DEVICES not in notes:
            return ()
        from kai_ray.encode import bad_devices

        return tuple(
            f"{d.name}{f' until {d.until}' if d.until else ''}: {d.reason}"
            for d in bad_devices.read(notes)
        )

    @property
    def _annotations(self) -> Object:
        return (self.object.get("metadata") or {}).get("annotations") or {}


def read(port: Port, *, labels: str = "") -> list[Node]:
    nodes, pods = port.list(R.NODE, labels=labels).items, port.list(R.POD).items
    return build(nodes, pods, devices.read(port))


def build(
    nodes: list[Object], pods: list[Object], claimed: devices.Claimed = devices.NONE
) -> list[Node]:
    on: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        if P.node(pod) and not P.finished(pod):
            on[P.node(pod)].append(pod)
    rows = [node(obj, on[obj["metadata"]["name"]], claimed) for obj in nodes]
    return sorted(rows, key=lambda n: natural(n.name))


def node(obj: Object, pods: list[Object], claimed: devices.Claimed = devices.NONE) -> Node:
    """A node with the live pods that are bound to it."""
    meta, status = obj["metadata"], obj.get("status") or {}
    allocatable = status.get("allocatable") or {}
    labels = meta.get("labels") or {}
    conditions = {c["type"]: c.get("status") for c in status.get("conditions") or []}
    return Node(
        name=meta["name"],
        gpus=float(
            sum(_whole(allocatable.get(r, 0)) for r in L.GPU_RESOURCES)
            + claimed.offered.get(meta["name"], 0)
        ),
        used=sum(P.gpus(p) + claimed.of(p) for p in pods),
        pods=len(pods),
        slots=_whole(allocatable.get("pods", 0)),
        cpu=str(allocatable.get("cpu", "")),
        memory=str(allocatable.get("memory", "")),
        model=labels.get(MODEL, ""),
        zone=labels.get(ZONE, ""),
        ready=conditions.get("Ready", "True") == "True",
        cordoned=bool((obj.get("spec") or {}).get("unschedulable")),
        created=meta.get("creationTimestamp") or "",
        object=obj,
        cards=_cards(pods),
    )


def _cards(pods: list[Object]) -> tuple[Card, ...]:
    on: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for pod in pods:
        for group, part in P.shares(pod).items():
            on[group].append((pod["metadata"]["name"], part))
    return tuple(
        Card(group, sum(part for _, part in of), tuple(sorted(name for name, _ in of)))
        for group, of in sorted(on.items())
    )


def _whole(value: str | int) -> int:
    try:
        return quantity.whole(value)
    except ValueError:
        return 0


def fold(rows: list[Node]) -> list[Node]:
    """Equal nodes as one row, named by ranges: `node-[0-2,5]`."""
    from dataclasses import replace

    groups: dict[tuple[object, ...], list[Node]] = defaultdict(list)
    for row in rows:
        stem = re.sub(r"\d+$", "", row.name)
        stem = row.name if stem == row.name else f"{stem}#"  # without a number: a row of its own
        alike = (stem, row.gpus, row.used, len(row.cards), row.pods, row.slots, row.cpu, row.memory)
        groups[(*alike, row.model, row.zone, row.state)].append(row)
    return [
        replace(alike[0], name=ranges([n.name for n in alike]), count=len(alike))
        for alike in groups.values()
    ]


def ranges(names: list[str]) -> str:
    """`["n-0", "n-1", "n-3"]` as `n-[0-1,3]`; names share everything but their last number."""
    if len(names) == 1:
        return names[0]
    stem = re.sub(r"\d+$", "", names[0])
    tails = sorted((n[len(stem) :] for n in names), key=natural)
    runs: list[list[str]] = []
    for tail in tails:
        if runs and int(tail) == int(runs[-1][-1]) + 1 and len(tail) >= len(runs[-1][-1]):
            runs[-1].append(tail)
        else:
            runs.append([tail])
    parts = [r[0] if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs]
    return f"{stem}[{','.join(parts)}]"


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """A key that puts node-2 before node-10."""
    parts = re.findall(r"\d+|\D+", name)
    return tuple((0, int(p)) if p.isdigit() else (1, p) for p in parts)

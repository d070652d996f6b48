"""The GPUs of a node as squares: who has which part of them, which are bad, which are linked.

Which card a pod has is known where the node's agent says so, or where pods share a card; else pods
fill the squares in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kai_ray.api import labels as L
from kai_ray.cluster.port import Key, Object, key_of
from kai_ray.encode import bad_devices, zone_rows
from kai_ray.encode.problems import Malformed
from kai_ray.gpu.node_use import DeviceUse, NodeUse
from kai_ray.sight import claimed, node_list
from kai_ray.sight.jobs import pods as P

SHARED, BAD, MIG = 1, 2, 4
#: Squares of one node at most.
MOST_CARDS = 128


class Part(NamedTuple):
    """What one pod has of a card: the pod, and which part of 1."""

    pod: Key
    gang: Key | None
    used: float


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU. Nobody has it where there are no parts."""

    parts: tuple[Part, ...]
    flags: int
    utilization: float | None

    @property
    def used(self) -> float:
        return min(1.0, sum(part.used for part in self.parts))


def cards_of(
    row: node_list.Node, pods: list[Object], use: NodeUse | None, held: claimed.Claimed
) -> tuple[Card, ...]:
    """A square per GPU of a node with these pods; `held` tells of GPUs that are claimed."""
    devices = sorted(use.devices, key=lambda d: d.index) if use else []
    count = min(MOST_CARDS, max(int(row.gpus), len(devices)))
    parts: list[list[Part]] = [[] for _ in range(count)]
    flags = [0] * count
    for device in devices[:count]:
        at = device.index if device.index < count else -1
        flags[at] |= (MIG if device.mig else 0) | (0 if device.healthy else BAD)
    known = {d.uuid: d.index for d in devices} | {str(d.index): d.index for d in devices}
    homes: dict[str, int] = {}  # group that shares a card -> the card
    later: list[tuple[Part, int]] = []
    for pod in pods:
        later += _settle(pod, held, devices, parts, flags, homes)
    free = [at for at in range(count) if not parts[at]]
    for part, cards in later:
        for _ in range(cards):
            if free:
                parts[free.pop(0)].append(part)
    for name in _bad(row):
        at = known.get(name, homes.get(name, int(name) if name.isdecimal() else -1))
        if 0 <= at < count:
            flags[at] |= BAD
    use_of = {d.index: d.utilization for d in devices}
    return tuple(Card(tuple(parts[at]), flags[at], use_of.get(at)) for at in range(count))


def _settle(
    pod: Object,
    held: claimed.Claimed,
    devices: list[DeviceUse],
    parts: list[list[Part]],
    flags: list[int],
    homes: dict[str, int],
) -> list[tuple[Part, int]]:
    """Puts a pod on its cards where they are known; else how many it has somewhere."""
    name = P.gang_name(pod)
    key = key_of(pod)
    gang = Key(key.namespace, name) if name else None
    uid = pod["metadata"].get("uid") or ""
    mine = [d.index for d in devices if d.pods and uid in d.pods and d.index < len(parts)]
    shares = P.shares(pod)
    if shares:
        for number, (group, used) in enumerate(shares.items()):
            at = homes.get(group)
            if at is None:
                taken = {*homes.values()}
                empty = (n for n in range(len(parts)) if not parts[n] and n not in taken)
                at = mine[number] if number < len(mine) else next(empty, -1)
                homes[group] = at
            if at >= 0:
                parts[at].append(Part(key, gang, used))
                flags[at] |= SHARED
        return []
    count = round(P.gpus(pod) + held.of(pod))
    whole = Part(key, gang, 1.0)
    for at in mine[:count]:
        parts[at].append(whole)
    rest = count - len(mine[:count])
    return [(whole, rest)] if rest > 0 else []


def _bad(row: node_list.Node) -> list[str]:
    return [d.name for d in bad_devices.read(row.object["metadata"].get("annotations") or {})]


def domains_of(node: Object, use: NodeUse | None) -> tuple[tuple[int, ...], ...]:
    """Cards that are linked, as the agent saw them; else those of one NUMA cell; else as stated."""
    devices = use.devices if use else ()
    if any(device.links for device in devices):
        return _linked(devices)
    cells: dict[int, list[int]] = {}
    for device in devices:
        if device.numa_node is not None:
            cells.setdefault(device.numa_node, []).append(device.index)
    if cells:
        return tuple(tuple(sorted(cells[cell])) for cell in sorted(cells))
    return _stated(node)


def _linked(devices: tuple[DeviceUse, ...]) -> tuple[tuple[int, ...], ...]:
    links = {device.index: {*device.links, device.index} for device in devices}
    found: list[tuple[int, ...]] = []
    seen: set[int] = set()
    for index in sorted(links):
        if index in seen:
            continue
        group, edge = {index}, [index]
        while edge:
            for other in links.get(edge.pop(), ()):
                if other in links and other not in group:
                    group.add(other)
                    edge.append(other)
        seen |= group
        found.append(tuple(sorted(group)))
    return tuple(found)


def _stated(node: Object) -> tuple[tuple[int, ...], ...]:
    """The annotation says how many GPUs are in each group, in their order."""
    notes = node["metadata"].get("annotations") or {}
    try:
        row = zone_rows.read_annotation(notes.get(L.NODE_ZONES) or "")
    except Malformed:
        return ()
    found: list[tuple[int, ...]] = []
    first = 0
    for zone in (row.links or row.zones) if row else ():
        count = min(MOST_CARDS, dict(zone.allocatable).get("gpu", 0))
        if count:
            found.append(tuple(range(first, first + count)))
            first += count
    return tuple(found)

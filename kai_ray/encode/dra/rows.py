"""A snapshot with its devices: rows for what is offered, and what each pod takes or holds of them.

Pods that wait take rows by what they ask; pods that have their devices, by what they hold. A claim
that pods share, or that holds devices without a placed pod, is an entry of its own (`Claim`).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kai_ray.cluster.port import Key
from kai_ray.scheduler.gpu.facts import MOST_CONSUMERS, UNKNOWN_CARD, Claim, GpuKind, Gpus
from kai_ray.scheduler.snapshot import GPU, USED, Bools, Classes, Snapshot

from . import matches
from .asks import DeviceAsk
from .cards import SHARE, NodeCards, kept_cards, slots_in_use
from .offer import Offer, options_of
from .parts import NOTHING, Part, Parts, add_all
from .slices import DeviceId
from .supply import Supply
from .table import DeviceTable

if TYPE_CHECKING:
    from kai_ray.encode.encoded import Names
    from kai_ray.encode.node_rows import NodeTable
    from kai_ray.encode.shape import Shape

#: The GPUs that a node's device plugin hands out, where other GPUs are claimed as devices.
PLUGIN_GPUS = "GPUs of the device plugin"
_USED = frozenset(int(s) for s in USED)


@dataclass(frozen=True, slots=True)
class Devices:
    """What a snapshot knows of devices beyond its rows; `assign` reads it."""

    supply: Supply
    offer: Offer
    table: DeviceTable
    taken: dict[DeviceId, Key]
    asks: tuple[DeviceAsk, ...] = ()  # per class, settled
    held: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """Task row -> the devices that the pod's own claims hold, by row of the supply."""
    loose: tuple[int, ...] = ()  # devices that claims hold for no placed pod of their own
    first: int = 0  # the snapshot's row of the offer's first
    cards: dict[int, NodeCards] = field(default_factory=dict[int, NodeCards])
    """Node row -> its GPUs that pods may share."""
    kept: frozenset[tuple[int, str]] = frozenset()
    """(node row, group) of each card that a claim keeps for its sharers."""


def with_devices(
    table: DeviceTable,
    nodes: NodeTable,
    snapshot: Snapshot,
    shapes: tuple[Shape, ...],
    names: Names,
    namespace: str,
) -> tuple[Snapshot, tuple[Shape, ...], Devices | None]:
    """The same with devices. A cluster without any pays nothing.

    `namespace` is where shared cards are kept.
    """
    if not table.active and not any(shape.devices for shape in shapes):
        return snapshot, shapes, None
    return _Tables(table, nodes, snapshot, shapes, names, namespace).build()


class _Tables:
    """The arrays with what the parts of all pods add up to."""

    def __init__(
        self,
        table: DeviceTable,
        nodes: NodeTable,
        snapshot: Snapshot,
        shapes: tuple[Shape, ...],
        names: Names,
        namespace: str,
    ) -> None:
        self._table, self._snapshot, self._shapes = table, snapshot, shapes
        self._parts = Parts(table, nodes, snapshot, shapes, names)
        self._supply, self._offer = self._parts.supply, self._parts.offer
        self._kept = kept_cards(table, self._supply, namespace)
        held = slots_in_use(snapshot.gpus, snapshot.tasks)
        self._shared = {(node, names.device_group(node, slot)) for node, slot, _ in held}

    def build(self) -> tuple[Snapshot, tuple[Shape, ...], Devices]:
        tasks = self._snapshot.tasks
        concerned = np.array([bool(shape.devices) for shape in self._shapes], dtype=np.bool_)
        parts: dict[Part, int] = {NOTHING: 0}
        code = np.zeros(tasks.count, dtype=np.int64)
        rows = np.flatnonzero(concerned[tasks.klass]) if tasks.count else tasks.klass[:0]
        for row in rows.tolist():
            part = self._parts.of(row)
            code[row] = parts.setdefault(part, len(parts))
        ordered = sorted(parts)
        place = np.empty(len(parts), dtype=np.int64)
        place[[parts[p] for p in ordered]] = np.arange(len(ordered))
        pairs = tasks.klass.astype(np.int64) * len(ordered) + place[code]
        distinct, klass = np.unique(pairs, return_inverse=True)
        origin, which = np.divmod(distinct, len(ordered))
        own = [ordered[i] for i in which.tolist()]
        snapshot = self._split(origin, klass.reshape(-1).astype(np.int32), own)
        shapes = tuple(self._shapes[c] for c in origin.tolist())
        devices = Devices(
            self._supply,
            self._offer,
            self._table,
            self._parts.taken,
            tuple(self._parts.settle(shape.devices) for shape in shapes),
            self._parts.held,
            self._loose(),
            len(self._snapshot.resources),
            self._parts.cards,
            frozenset(self._kept.values()),
        )
        snapshot = self._replaced(snapshot, matches=matches.tables(devices, snapshot, shapes))
        return snapshot, shapes, devices

    def _loose(self) -> tuple[int, ...]:
        """Local devices of claims that no placed pod carries."""
        return tuple(
            sorted(
                d
                for key in {*self._parts.taken.values()} - self._parts.carried
                for d in self._parts.local(self._table.held(key))
            )
        )

    def _split(
        self, origin: NDArray[np.int64], klass: NDArray[np.int32], parts: list[Part]
    ) -> Snapshot:
        s, offer = self._snapshot, self._offer
        named = {key for part in parts for key in part.claims}
        loose = {key for key in self._parts.taken.values() if key not in self._parts.carried}
        keys = sorted(named | {k for k in loose if self._parts.local(self._table.held(k))})
        place = {key: i for i, key in enumerate(keys)}
        gates = {
            key: offer.gate(f"places where claim {key.name} can be used", self._where(key))
            for key in sorted({key for part in parts for key in part.gates})
        }
        first = len(s.resources)
        local: Bools = self._supply.node >= 0
        gpus_here = self._supply.per_node(self._parts.gpu & (local | self._parts.free))
        own_gpus = self._supply.per_node(self._parts.gpu & local)
        resources = (*s.resources, *offer.names)
        plugin = bool(gpus_here.any())
        columns = [s.nodes.allocatable, offer.allocatable]
        request = np.zeros((len(resources), len(parts)), dtype=np.int64)
        request[:first] = s.classes.request[:, origin]
        charged = s.classes.queue_request[:, origin].copy()
        own = request[GPU].copy()
        rules = [s.classes.rules[c] for c in origin.tolist()]
        for c, part in enumerate(parts):
            for row, amount in (*part.charge, *((gates[k], 1) for k in part.gates)):
                request[first + row, c] += amount
            request[GPU, c] += int(part.gpus)
            charged[GPU, c] += part.queue_gpus
            if part.claims or part.blocked:
                blocked = rules[c].blocked or part.blocked
                rules[c] = dataclasses.replace(
                    rules[c],
                    claims=tuple(place[k] for k in part.claims),
                    blocked=blocked,
                    blocked_detail=rules[c].blocked_detail if rules[c].blocked else part.detail,
                )
        if plugin:
            resources = (*resources, PLUGIN_GPUS)
            columns.append(s.nodes.allocatable[GPU : GPU + 1])
            request = np.concatenate((request, own[None, :]))
        allocatable = np.concatenate(columns)
        allocatable[GPU] += gpus_here
        entries = tuple(self._entry(key, i, first) for i, key in enumerate(keys))
        return self._replaced(
            s,
            resources=resources,
            nodes=dataclasses.replace(s.nodes, allocatable=allocatable),
            classes=Classes(request=request, queue_request=charged, rules=tuple(rules)),
            peers=tuple(dataclasses.replace(p, matches=p.matches[origin]) for p in s.peers),
            tasks=dataclasses.replace(s.tasks, klass=klass),
            kept=_padded(s.kept, len(resources)),
            gpus=self._gpu_table(s.gpus, origin, parts, own_gpus > 0, entries),
            total=self._total(klass, parts, own_gpus),
        )

    @staticmethod
    def _replaced(snapshot: Snapshot, **more: object) -> Snapshot:
        return dataclasses.replace(snapshot, **more)  # type: ignore[arg-type]

    def _where(self, key: Key) -> Bools:
        held = self._table.held(key)
        return self._supply.reach(held.nodes if held is not None else None)

    def _entry(self, key: Key, rank: int, first: int) -> Claim:
        """One claim of the core's table."""
        held, row = self._table.held(key), self._table.claims.rows.get(key)
        consumers = set(row.consumers) if row is not None else set[str]()
        users = (consumers | self._parts.placed_users.get(key, set())) - self._parts.waiting
        ask = self._parts.settle((row.ask,)) if row is not None and row.ask is not None else ()
        charge: dict[int, int] = {}
        local = self._parts.local(held)
        node, gpus = -1, self._parts.gpus(ask)
        if held is not None:
            add_all(charge, (self._offer.takes(d) for d in local))
            node = int(self._supply.node[local[0]]) if local else -1
            gpus = float(self._parts.gpu[local].sum()) if local else 0.0
            if self._parts.cards and self._kept.get(key) in self._shared:
                gpus = 0.0  # it counts through those who share it, and so do these rows
                for r, amount in self._offer.charge([SHARE]).items():
                    charge[r] = max(charge.get(r, 0) - amount, 0)
        elif ask:
            add_all(charge, [self._offer.charge(options_of(ask))])
        amounts = [(first + r, amount) for r, amount in sorted(charge.items())]
        if gpus:
            amounts.append((GPU, int(gpus)))
        return Claim(tuple(amounts), node, max(MOST_CONSUMERS - len(users), 0), rank)

    def _gpu_table(
        self,
        gpus: Gpus | None,
        origin: NDArray[np.int64],
        parts: list[Part],
        here: Bools,
        entries: tuple[Claim, ...],
    ) -> Gpus | None:
        if gpus is None:
            return None
        kind = gpus.kind[origin].copy()
        claimed = np.array([part.queue_gpus > 0 for part in parts], dtype=np.bool_)
        kind[claimed & (kind == GpuKind.NONE)] = GpuKind.DRA
        share = gpus.mig_share
        cards = self._parts.cards
        memory, by_claim = gpus.memory.copy(), np.zeros(len(gpus.memory), dtype=np.bool_)
        for n, found in cards.items():
            by_claim[n] = True
            memory[n] = memory[n] or found.mib
        known = memory[memory > UNKNOWN_CARD]
        first = len(self._snapshot.resources)
        taken = self._offer.charge([SHARE]) if cards else {}
        return dataclasses.replace(
            gpus,
            memory=memory,
            least_mib=int(known.min(initial=2**62)) if known.size else 0,
            most_mib=int(known.max(initial=0)),
            by_claim=by_claim,
            share_rows=tuple(first + row for row in sorted(taken)),
            dra=here,
            kind=kind,
            devices=gpus.devices[origin],
            portion=gpus.portion[origin],
            mib=gpus.mib[origin],
            mig_share=None if share is None else share[origin],
            claims=entries,
        )

    def _total(
        self, klass: NDArray[np.int32], parts: list[Part], gpus_here: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """What queues divide: with the GPUs of usable nodes, without those of others' pods."""
        tasks, total = self._snapshot.tasks, self._snapshot.total.copy()
        total[GPU] += float(gpus_here[self._parts.usable].sum())
        total[GPU] += float(self._parts.gpu[self._supply.remote].sum())
        theirs = (tasks.gang < 0) & (tasks.node >= 0) & np.isin(tasks.state, list(_USED))
        theirs[theirs] = self._parts.usable[tasks.node[theirs]]
        extra = np.array([part.queue_gpus for part in parts], dtype=np.float64)
        total[GPU] = max(total[GPU] - float(extra[klass[theirs]].sum()), 0.0)
        return total


def _padded(kept: NDArray[np.int64] | None, rows: int) -> NDArray[np.int64] | None:
    """[R, N] with rows for what came on top."""
    if kept is None:
        return None
    more = np.zeros((rows - kept.shape[0], kept.shape[1]), dtype=np.int64)
    return np.concatenate((kept, more))

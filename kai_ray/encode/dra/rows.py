"""A snapshot with its devices: rows for what is offered, and what each pod takes or holds of them.

Pods that wait take rows by what they ask; pods that have their devices, by what they hold. A claim
that pods share, or that holds devices without a placed pod, is an entry of its own (`Claim`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kai_ray.cluster.port import Key, Object
from kai_ray.encode.problems import Malformed
from kai_ray.scheduler.gpu.facts import MOST_CONSUMERS, Claim, GpuKind, Gpus
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import GPU, USED, Bools, Classes, Snapshot

from . import matches
from .asks import ALL, ClaimAsk, DeviceAsk, Option, Predicate
from .claims import ClaimRow, Held, named_by
from .offer import Offer, options_of, settled
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


class Part(NamedTuple):
    """What one pod means for the rows: equal parts of one class are one class."""

    charge: tuple[tuple[int, int], ...] = ()  # (row of the offer, amount)
    claims: tuple[Key, ...] = ()  # claims with an entry of their own
    gates: tuple[Key, ...] = ()  # claims that hold remote devices only
    gpus: float = 0.0  # devices that take whole GPUs of the node
    queue_gpus: float = 0.0  # what the queue is charged
    blocked: int = 0
    detail: str = ""


NOTHING = Part()


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


def with_devices(
    table: DeviceTable,
    nodes: NodeTable,
    snapshot: Snapshot,
    shapes: tuple[Shape, ...],
    names: Names,
) -> tuple[Snapshot, tuple[Shape, ...], Devices | None]:
    """The same with devices. A cluster without any pays nothing."""
    if not table.active and not any(shape.devices for shape in shapes):
        return snapshot, shapes, None
    return _Builder(table, nodes, snapshot, shapes, names).build()


class _Builder:
    def __init__(
        self,
        table: DeviceTable,
        nodes: NodeTable,
        snapshot: Snapshot,
        shapes: tuple[Shape, ...],
        names: Names,
    ) -> None:
        self._table, self._snapshot, self._shapes, self._names = table, snapshot, shapes, names
        self._supply = supply = table.supply(nodes)
        self._taken = table.taken()
        self._free: Bools = np.ones(len(supply.devices), dtype=np.bool_)
        for device in self._taken:
            if device in supply.row_of:
                self._free[supply.row_of[device]] = False
        self._usable: Bools = snapshot.nodes.ready & ~snapshot.nodes.cordoned
        self._settled: dict[DeviceAsk, DeviceAsk] = {}
        asks = [self._settle(shape.devices) for shape in shapes]
        shared = [self._settle((row.ask,)) for row in self._named_rows() if row.ask is not None]
        options = [o for ask in (*asks, *shared) for o in options_of(ask)]
        self._offer = Offer(supply, options, self._free)
        self._gpu = self._gpu_devices(options)
        self._carried: set[Key] = set()
        self._held: dict[int, list[int]] = {}
        self._placed_users: dict[Key, set[str]] = {}
        self._waiting: set[str] = set()
        self._faults: dict[Predicate, str] = {}
        self._worth: dict[Option, float] = {}

    def _settle(self, ask: DeviceAsk) -> DeviceAsk:
        found = self._settled.get(ask)
        if found is None:
            found = settled(ask, self._supply, self._free, self._usable)
            self._settled[ask] = found
        return found

    def _named_rows(self) -> Iterable[ClaimRow]:
        """Claims that pods name themselves."""
        shared = {claim.shared for shape in self._shapes for claim in shape.devices} - {""}
        for name in sorted(shared):
            row = self._table.claims.rows.get(Key(*name.split("/", 1)))
            if row is not None:
                yield row

    # ---- GPUs among the devices

    def _gpu_devices(self, options: Sequence[Option]) -> Bools:
        """[D] devices that count as GPUs: by their driver's name or their class's (KAI)."""
        drivers = ["gpu" in d.id.driver.lower() for d in self._supply.devices]
        found = np.array(drivers, dtype=np.bool_)
        for name in {o.predicate.device_class for o in options}:
            if "gpu" in name.lower():
                found = found | self._supply.fits(Predicate(name))
        return found

    def _gpus(self, ask: DeviceAsk) -> float:
        """GPUs that an ask counts as: where all devices are asked for, the most a node has."""
        return sum(self._option_gpus(o) for o in options_of(ask) if not o.admin)

    def _option_gpus(self, option: Option) -> float:
        found = self._worth.get(option)
        if found is None:
            fits = self._supply.fits(option.predicate)
            named = "gpu" in option.predicate.device_class.lower()
            counts = named or bool(fits.any() and self._gpu[fits].all())
            count = option.count
            if count == ALL:
                count = max(int(self._supply.per_node(fits).max(initial=0)), 1)
            found = self._worth[option] = float(count) if counts else 0.0
        return found

    # ---- pods

    def build(self) -> tuple[Snapshot, tuple[Shape, ...], Devices]:
        tasks = self._snapshot.tasks
        concerned = np.array([bool(shape.devices) for shape in self._shapes], dtype=np.bool_)
        parts: dict[Part, int] = {NOTHING: 0}
        code = np.zeros(tasks.count, dtype=np.int64)
        rows = np.flatnonzero(concerned[tasks.klass]) if tasks.count else tasks.klass[:0]
        for row in rows.tolist():
            part = self._part(row)
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
            self._taken,
            tuple(self._settle(shape.devices) for shape in shapes),
            self._held,
            self._loose(),
            len(self._snapshot.resources),
        )
        snapshot = self._replaced(snapshot, matches=matches.tables(devices, snapshot, shapes))
        return snapshot, shapes, devices

    def _part(self, row: int) -> Part:
        tasks = self._snapshot.tasks
        pod = self._names.pod_object(row)
        placed = int(tasks.node[row]) >= 0 and int(tasks.state[row]) in _USED
        ask = self._settle(self._shapes[int(tasks.klass[row])].devices)
        uid = ((pod or {}).get("metadata") or {}).get("uid") or ""
        if not placed:
            self._waiting.add(uid)
        charge: dict[int, int] = {}
        claims: list[Key] = []
        gates: list[Key] = []
        gpus = queue_gpus = 0.0
        for key, claim in zip(self._keys(pod), ask, strict=False):
            mine = self._gpus((claim,))
            held = self._table.held(key)
            local = self._local(held)
            if held is not None and not local and held.devices:
                gates.append(key)
            elif claim.shared or (held is not None and not placed):
                claims.append(key)
                if placed:
                    self._placed_users.setdefault(key, set()).add(uid)
            elif held is not None:
                self._carried.add(key)
                self._held.setdefault(row, []).extend(local)
                _add_all(charge, (self._offer.takes(d) for d in local))
                if any(o.count == ALL for o in options_of((claim,))):
                    mine = float(self._gpu[local].sum())
                gpus += mine
            else:
                _add_all(charge, [self._offer.charge(options_of((claim,)))])
                gpus += mine
            queue_gpus += mine
        blocked, detail = (0, "") if placed else self._refusal(row, pod, ask)
        return Part(
            tuple(sorted(charge.items())),
            tuple(claims),
            tuple(gates),
            gpus,
            queue_gpus,
            blocked,
            detail,
        )

    def _keys(self, pod: Object | None) -> Iterable[Key]:
        """The pod's claims that can be read, in the order of its ask."""
        try:
            for named in named_by(pod) if pod is not None else ():
                row = self._table.claims.rows.get(named.key) if named.key else None
                if named.key is not None and row is not None and row.ask is not None:
                    yield named.key
        except Malformed:
            return

    def _local(self, held: Held | None) -> list[int]:
        """Rows of devices that are held and sit in a node of ours."""
        if held is None:
            return []
        rows = [self._supply.row_of.get(d, -1) for d in held.devices]
        return [d for d in rows if d >= 0 and self._supply.node[d] >= 0]

    def _refusal(self, row: int, pod: Object | None, ask: DeviceAsk) -> tuple[int, str]:
        """(a Reason, words) why the pod cannot be given what it asks; (0, "") where it can."""
        keys = list(self._keys(pod))
        for key, claim in zip(keys, ask, strict=False):
            if self._table.held(key) is None:
                why = self._unusable(key, claim)
                if why:
                    return int(Reason.MISCONFIGURED), why
            if claim.shared and self._gpus((claim,)) > 0:
                queue = self._queue_of(row)
                stated = self._table.claims.rows[key].queue
                if queue is not None and stated != queue:
                    has = f"has {stated!r}" if stated else "has none"
                    words = f"{key.name} {has}, the pod's queue is {queue!r}"
                    return int(Reason.CLAIM_WRONG_QUEUE), words
        return 0, ""

    def _unusable(self, key: Key, claim: ClaimAsk) -> str:
        options = options_of((claim,))
        for option in options:
            predicate = option.predicate
            fault = self._faults.get(predicate)
            if fault is None:
                fault = self._faults[predicate] = self._supply.fault(predicate)
            if fault:
                return f"claim {key.name}: {fault}"
        every = [o for o in options if o.count == ALL and not o.admin]
        for one in every:
            for other in options:
                both = self._offer.seen.get(one.predicate, frozenset()) & self._offer.seen.get(
                    other.predicate, frozenset()
                )
                if other is not one and not other.admin and both:
                    words = "asks for all devices that another of its requests asks for too"
                    return f"claim {key.name} {words}: let its requests see different devices"
        return ""

    def _queue_of(self, row: int) -> str | None:
        gang = int(self._snapshot.tasks.gang[row])
        queue = int(self._snapshot.gangs.queue[gang]) if gang >= 0 else -1
        return self._names.queues[queue] if queue >= 0 else None

    # ---- the tables

    def _loose(self) -> tuple[int, ...]:
        """Local devices of claims that no placed pod carries."""
        return tuple(
            sorted(
                d
                for key in {*self._taken.values()} - self._carried
                for d in self._local(self._table.held(key))
            )
        )

    def _split(
        self, origin: NDArray[np.int64], klass: NDArray[np.int32], parts: list[Part]
    ) -> Snapshot:
        s, offer = self._snapshot, self._offer
        named = {key for part in parts for key in part.claims}
        loose = {key for key in self._taken.values() if key not in self._carried}
        keys = sorted(named | {k for k in loose if self._local(self._table.held(k))})
        place = {key: i for i, key in enumerate(keys)}
        gates = {
            key: offer.gate(f"places where claim {key.name} can be used", self._where(key))
            for key in sorted({key for part in parts for key in part.gates})
        }
        first = len(s.resources)
        local: Bools = self._supply.node >= 0
        gpus_here = self._supply.per_node(self._gpu & (local | self._free))
        own_gpus = self._supply.per_node(self._gpu & local)
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
        users = (consumers | self._placed_users.get(key, set())) - self._waiting
        ask = self._settle((row.ask,)) if row is not None and row.ask is not None else ()
        charge: dict[int, int] = {}
        local = self._local(held)
        node, gpus = -1, self._gpus(ask)
        if held is not None:
            _add_all(charge, (self._offer.takes(d) for d in local))
            node = int(self._supply.node[local[0]]) if local else -1
            gpus = float(self._gpu[local].sum()) if local else 0.0
        elif ask:
            _add_all(charge, [self._offer.charge(options_of(ask))])
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
        return dataclasses.replace(
            gpus,
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
        total[GPU] += float(gpus_here[self._usable].sum())
        total[GPU] += float(self._gpu[self._supply.remote].sum())
        theirs = (tasks.gang < 0) & (tasks.node >= 0) & np.isin(tasks.state, list(_USED))
        theirs[theirs] = self._usable[tasks.node[theirs]]
        extra = np.array([part.queue_gpus for part in parts], dtype=np.float64)
        total[GPU] = max(total[GPU] - float(extra[klass[theirs]].sum()), 0.0)
        return total


def _add_all(into: dict[int, int], charges: Iterable[dict[int, int]]) -> None:
    for charge in charges:
        for row, amount in charge.items():
            into[row] = into.get(row, 0) + amount


def _padded(kept: NDArray[np.int64] | None, rows: int) -> NDArray[np.int64] | None:
    """[R, N] with rows for what came on top."""
    if kept is None:
        return None
    more = np.zeros((rows - kept.shape[0], kept.shape[1]), dtype=np.int64)
    return np.concatenate((kept, more))

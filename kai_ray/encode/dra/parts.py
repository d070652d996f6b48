"""What each pod means for the rows of devices: what it takes, holds, or why it gets nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kai_ray.cluster.port import Key, Object
from kai_ray.encode.problems import Malformed
from kai_ray.scheduler.gpu.facts import shared_kind
from kai_ray.scheduler.reason import Reason
from kai_ray.scheduler.snapshot import USED, Bools, Snapshot

from .asks import ALL, ClaimAsk, DeviceAsk, Option, Predicate
from .cards import SHARE, NodeCards
from .claims import ClaimRow, Held, named_by
from .offer import MOST_PREDICATES, Offer, options_of, settled
from .table import DeviceTable

if TYPE_CHECKING:
    from kai_ray.encode.encoded import Names
    from kai_ray.encode.node_rows import NodeTable
    from kai_ray.encode.shape import Shape

_USED = frozenset(int(s) for s in USED)


class Part(NamedTuple):
    """What one pod means for the rows: equal parts of one class are one class."""

    charge: tuple[tuple[int, int], ...] = ()  # (row of the offer, amount)
    claims: tuple[Key, ...] = ()  # claims with an entry of their own
    gates: tuple[Key, ...] = ()  # claims that have been met, with no device of a node
    gpus: float = 0.0  # devices that take whole GPUs of the node
    queue_gpus: float = 0.0  # what the queue is charged
    blocked: int = 0
    detail: str = ""


NOTHING = Part()


class Parts:
    """Reads pods of one snapshot, one after the other, and remembers who holds which claim."""

    def __init__(
        self,
        table: DeviceTable,
        nodes: NodeTable,
        snapshot: Snapshot,
        shapes: tuple[Shape, ...],
        names: Names,
    ) -> None:
        self._table, self._snapshot, self._shapes, self._names = table, snapshot, shapes, names
        self.supply = supply = table.supply(nodes)
        self.taken = table.taken()
        self.free: Bools = np.ones(len(supply.devices), dtype=np.bool_)
        for device in self.taken:
            if device in supply.row_of:
                self.free[supply.row_of[device]] = False
        self.usable: Bools = snapshot.nodes.ready & ~snapshot.nodes.cordoned
        self._settled: dict[DeviceAsk, DeviceAsk] = {}
        asks = [self.settle(shape.devices) for shape in shapes]
        shared = [self.settle((row.ask,)) for row in self._named_rows() if row.ask is not None]
        options = [o for ask in (*asks, *shared) for o in options_of(ask)]
        self.cards = self._shared_cards(nodes)
        if self.cards:
            options.append(SHARE)
        self.offer = Offer(supply, options, self.free)
        self.gpu = self._gpu_devices(options)
        self.carried: set[Key] = set()
        self.held: dict[int, list[int]] = {}
        self.placed_users: dict[Key, set[str]] = {}
        self.waiting: set[str] = set()
        self._faults: dict[Predicate, str] = {}
        self._worth: dict[Option, float] = {}

    def _shared_cards(self, nodes: NodeTable) -> dict[int, NodeCards]:
        """By node row, the GPUs that pods may share; none where nobody shares any."""
        if not any(shared_kind(shape.gpu.kind) for shape in self._shapes):
            return {}
        place = {node.name: n for n, node in enumerate(self.supply.nodes)}
        return {place[name]: found for name, found in self._table.cards(nodes).items()}

    def settle(self, ask: DeviceAsk) -> DeviceAsk:
        found = self._settled.get(ask)
        if found is None:
            found = settled(ask, self.supply, self.free, self.usable)
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
        drivers = ["gpu" in d.id.driver.lower() for d in self.supply.devices]
        found = np.array(drivers, dtype=np.bool_)
        for name in {o.predicate.device_class for o in options}:
            if "gpu" in name.lower():
                found = found | self.supply.fits(Predicate(name))
        return found

    def gpus(self, ask: DeviceAsk) -> float:
        """GPUs that an ask counts as: where all devices are asked for, the most a node has."""
        return sum(self._option_gpus(o) for o in options_of(ask) if not o.admin)

    def _option_gpus(self, option: Option) -> float:
        found = self._worth.get(option)
        if found is None:
            fits = self.supply.fits(option.predicate)
            named = "gpu" in option.predicate.device_class.lower()
            counts = named or bool(fits.any() and self.gpu[fits].all())
            count = option.count
            if count == ALL:
                count = max(int(self.supply.per_node(fits).max(initial=0)), 1)
            found = self._worth[option] = float(count) if counts else 0.0
        return found

    # ---- pods

    def of(self, row: int) -> Part:
        tasks = self._snapshot.tasks
        pod = self._names.pod_object(row)
        placed = int(tasks.node[row]) >= 0 and int(tasks.state[row]) in _USED
        ask = self.settle(self._shapes[int(tasks.klass[row])].devices)
        uid = ((pod or {}).get("metadata") or {}).get("uid") or ""
        if not placed:
            self.waiting.add(uid)
        charge: dict[int, int] = {}
        claims: list[Key] = []
        gates: list[Key] = []
        gpus = queue_gpus = 0.0
        for key, claim in zip(self._keys(pod), ask, strict=False):
            mine = self.gpus((claim,))
            held = self._table.held(key)
            local = self.local(held)
            if held is not None and not local:
                gates.append(key)
            elif claim.shared or (held is not None and not placed):
                claims.append(key)
                if placed:
                    self.placed_users.setdefault(key, set()).add(uid)
            elif held is not None:
                self.carried.add(key)
                self.held.setdefault(row, []).extend(local)
                add_all(charge, (self.offer.takes(d) for d in local))
                mine = float(self.gpu[local].sum())
                gpus += mine
            else:
                add_all(charge, [self.offer.charge(options_of((claim,)))])
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

    def local(self, held: Held | None) -> list[int]:
        """Rows of devices that are held and sit in a node of ours."""
        if held is None:
            return []
        rows = [self.supply.row_of.get(d, -1) for d in held.devices]
        return [d for d in rows if d >= 0 and self.supply.node[d] >= 0]

    def _refusal(self, row: int, pod: Object | None, ask: DeviceAsk) -> tuple[int, str]:
        """(a Reason, words) why the pod cannot be given what it asks; (0, "") where it can."""
        keys = list(self._keys(pod))
        for key, claim in zip(keys, ask, strict=False):
            if self._table.held(key) is None:
                why = self._unusable(key, claim)
                if why:
                    return int(Reason.MISCONFIGURED), why
            if claim.shared and self.gpus((claim,)) > 0:
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
                fault = self._faults[predicate] = self.supply.fault(predicate)
            if fault:
                return f"claim {key.name}: {fault}"
            if not option.admin and predicate not in self.offer.seen:
                words = f"there are more than {MOST_PREDICATES} different requests for devices"
                return f"claim {key.name}: {words}: use a DeviceClass instead of selectors"
        every = [o for o in options if o.count == ALL and not o.admin]
        for one in every:
            for other in options:
                both = self.offer.seen.get(one.predicate, frozenset()) & self.offer.seen.get(
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


def add_all(into: dict[int, int], charges: Iterable[dict[int, int]]) -> None:
    """Adds up charges, row by row."""
    for charge in charges:
        for row, amount in charge.items():
            into[row] = into.get(row, 0) + amount

"""Which devices each pod of a Plan gets on its node: an exact search, node by node.

The rows of the offer promise that devices for all pods of a node exist; here they are named. Those
that few requests want are given first, and within a claim those that belong together (one NUMA
cell, one link group). What the rows do not know, devices that several nodes reach, may turn out to
be short: then a pod is told so, and the next cycle decides with what is true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kai_ray.cluster.port import Key, Object
from kai_ray.encode.encoded import Encoded
from kai_ray.encode.problems import Malformed
from kai_ray.scheduler import Plan

from . import cells
from .asks import ALL, ClaimAsk, Option
from .attributes import Name
from .claims import Held, named_by
from .rows import Devices
from .slices import DeviceId

#: Steps of the search on one node, for all its pods together and then for each of them.
_MOST_STEPS = 20_000


class Result(NamedTuple):
    """One device of an allocation."""

    request: str  # "request", or "request/subrequest"
    device: DeviceId
    admin: bool


class ClaimGrant(NamedTuple):
    """What a pod's claim gets. `results` None: it has its devices, the pod only joins."""

    key: Key
    uid: str
    held: Held
    results: tuple[Result, ...] | None


class Granted(NamedTuple):
    """Per pod: its claims, or why there is no device for it after all."""

    claims: tuple[ClaimGrant, ...] = ()
    refusal: str = ""


@dataclass(slots=True)
class _Want:
    """One device to be found."""

    claim: Key
    request: str
    option: Option
    choices: list[int]
    bound: list[tuple[Any, Name]]  # constraints: (group, attribute)
    liked: list[tuple[Any, Name]]  # the same, as far as it can be had


@dataclass(slots=True)
class _PodWants:
    task: int
    joins: list[ClaimGrant] = field(default_factory=list[ClaimGrant])
    claims: dict[Key, str] = field(default_factory=dict[Key, str])  # to be allocated: UID of each
    wants: list[_Want] = field(default_factory=list[_Want])
    looks: list[tuple[Key, Result]] = field(default_factory=list[tuple[Key, Result]])
    refusal: str = ""


def grants(encoded: Encoded, plan: Plan) -> dict[int, Granted]:
    """Per task row that is bound now and claims devices."""
    devices = encoded.devices
    if devices is None:
        return {}
    by_node: dict[int, list[int]] = {}
    klass = encoded.snapshot.tasks.klass
    for task, node in zip(plan.bind_task.tolist(), plan.bind_node.tolist(), strict=True):
        if devices.asks[int(klass[task])]:
            by_node.setdefault(node, []).append(task)
    found: dict[int, Granted] = {}
    if by_node:
        hand_out = _HandOut(encoded, devices)
        for node, tasks in by_node.items():
            found.update(hand_out.node(node, tasks))
    return found


class _HandOut:
    """Devices that are free at the start of a Plan, and what it has given of them so far."""

    def __init__(self, encoded: Encoded, devices: Devices) -> None:
        self._encoded, self._devices = encoded, devices
        self._supply = devices.supply
        self._gone = {
            self._supply.row_of[d] for d in devices.table.taken() if d in self._supply.row_of
        }
        self._shared: dict[Key, ClaimGrant] = {}  # allocated in this Plan

    def node(self, node: int, tasks: Sequence[int]) -> Iterator[tuple[int, Granted]]:
        first: set[Key] = set()
        pods = [self._read(task, node, first) for task in tasks]
        solved = self._solve([p for p in pods if not p.refusal])
        for pod in pods:
            if solved is None and not pod.refusal and pod.wants:
                alone = self._solve([pod])
                if alone is None:
                    pod.refusal = "no free devices of the node fit together as its claims ask"
                else:
                    self._gone.update(alone.values())
                yield pod.task, self._granted(pod, node, alone or {})
            else:
                yield pod.task, self._granted(pod, node, solved or {})

    def _read(self, task: int, node: int, first: set[Key]) -> _PodWants:
        found = _PodWants(task)
        pod = self._encoded.names.pod_object(task)
        klass = int(self._encoded.snapshot.tasks.klass[task])
        ask = self._devices.asks[klass]
        try:
            keys = [n.key for n in named_by(pod) if n.key is not None] if pod is not None else []
        except Malformed as error:
            found.refusal = error.mend
            return found
        if len(keys) != len(ask):
            found.refusal = "its claims have changed"
            return found
        numa, links = cells.implied(self._encoded.shapes[klass])
        for key, claim in zip(keys, ask, strict=True):
            row = self._devices.table.claims.rows.get(key)
            if row is None:
                found.refusal = f"claim {key.name} is gone"
                return found
            held = self._devices.table.held(key)
            if held is not None:
                found.joins.append(ClaimGrant(key, row.uid, held, None))
            elif key in self._shared or key in first:
                found.claims.setdefault(key, "")
            else:
                first.add(key)
                found.claims[key] = row.uid
                self._wants(found, key, claim, node, numa, links)
        return found

    def _wants(
        self, into: _PodWants, key: Key, claim: ClaimAsk, node: int, numa: bool, links: bool
    ) -> None:
        for request in claim.requests:
            option = request.options[0]
            name = f"{request.name}/{option.name}" if option.name else request.name
            suits = self._suiting(option, node)
            bound: list[tuple[Any, Name]] = [
                ((key, i), attribute)
                for i, (attribute, requests) in enumerate(claim.match)
                if not requests or request.name in requests or name in requests
            ]
            if numa:
                bound.append((("pod", into.task), cells.NUMA))
            if links and self._all_gpus(suits):
                bound.append((("pod", into.task), cells.LINKS))
            if option.admin:
                many = suits if option.count == ALL else suits[: option.count]
                if len(many) < max(option.count, 1):
                    into.refusal = f"claim {key.name}: too few devices to look at"
                for d in many:
                    device = self._supply.devices[d].id
                    into.looks.append((key, Result(name, device, True)))
                continue
            count = len(suits) if option.count == ALL else option.count
            if count == 0:
                into.refusal = f"claim {key.name}: no device suits request {request.name}"
            liked: list[tuple[Any, Name]] = [] if numa else [(("pod", into.task), cells.NUMA)]
            into.wants += [_Want(key, name, option, suits, bound, liked) for _ in range(count)]

    def _all_gpus(self, devices: Sequence[int]) -> bool:
        return all("gpu" in self._supply.devices[d].id.driver.lower() for d in devices)

    def _suiting(self, option: Option, node: int) -> list[int]:
        fits = self._supply.fits(option.predicate)
        remote = [d for d in self._supply.remote if self._supply.reachable(d)[node]]
        every = [d for d in (*self._supply.local(node), *remote) if fits[d]]
        offer = self._devices.offer
        return sorted(every, key=lambda d: (offer.uses(d), self._place(d), d))

    def _place(self, device: int) -> str:
        found = self._supply.devices[device]
        return repr((cells.value(found, cells.NUMA), cells.value(found, cells.LINKS)))

    def _solve(self, pods: Sequence[_PodWants]) -> dict[int, int] | None:
        """Device of each want by its identity, or None."""
        wants = [want for pod in pods for want in pod.wants]
        wants.sort(key=lambda w: (not w.bound, sum(d not in self._gone for d in w.choices)))
        near = any(self._near(want) for want in wants)
        found = _Search(wants, set(self._gone), self._devices, near).run()
        if found is None and near:
            found = _Search(wants, set(self._gone), self._devices, False).run()
        if found is not None and len(pods) > 1:
            self._gone.update(found.values())
        return found

    def _near(self, want: _Want) -> bool:
        """Whether any of its devices says in which NUMA cell it is."""
        devices = self._supply.devices
        return any(cells.value(devices[d], cells.NUMA) is not None for d in want.choices)

    def _granted(self, pod: _PodWants, node: int, solved: dict[int, int]) -> Granted:
        if pod.refusal:
            return Granted(refusal=pod.refusal)
        made: dict[Key, list[Result]] = {key: [] for key, uid in pod.claims.items() if uid}
        for key, result in pod.looks:
            made[key].append(result)
        for want in pod.wants:
            d = solved[id(want)]
            self._gone.add(d)
            made[want.claim].append(Result(want.request, self._supply.devices[d].id, False))
        given = list(pod.joins)
        for key, uid in pod.claims.items():
            if not uid:
                shared = self._shared.get(key)
                if shared is None:
                    return Granted(refusal=f"the devices of claim {key.name} went to nobody")
                given.append(shared._replace(results=None))
                continue
            results = tuple(sorted(made[key]))
            taken = tuple(sorted(r.device for r in results if not r.admin))
            grant = ClaimGrant(key, uid, Held(taken, self._nodes(taken, node)), results)
            self._shared[key] = grant
            given.append(grant)
        return Granted(tuple(given))

    def _nodes(self, devices: Sequence[DeviceId], node: int) -> Any:
        """Where the devices can be used: on one node if any of them is local."""
        rows = [self._supply.row_of[d] for d in devices]
        if not rows or any(self._supply.node[d] >= 0 for d in rows):
            return cells.only(self._supply.nodes[node].name)
        selectors = {self._supply.devices[d].reach.selector for d in rows} - {None}
        if not selectors:
            return None
        found, *more = selectors
        return found if not more else cells.only(self._supply.nodes[node].name)


class _Search:
    """Depth first, the want with the fewest choices first; alike devices are tried once."""

    def __init__(
        self, wants: Sequence[_Want], gone: set[int], devices: Devices, near: bool
    ) -> None:
        """`near`: what is liked holds too."""
        self._wants, self._gone, self._devices = wants, gone, devices
        self._bound = {id(w): [*w.bound, *(w.liked if near else ())] for w in wants}
        self._names = sorted({name for bound in self._bound.values() for _, name in bound})
        self._found: dict[int, int] = {}
        self._same: dict[tuple[Any, Name], list[Any]] = {}
        self._steps = 0

    def run(self) -> dict[int, int] | None:
        return dict(self._found) if self._place(0) else None

    def _place(self, i: int) -> bool:
        if i == len(self._wants):
            return True
        want = self._wants[i]
        tried: set[Any] = set()
        for d in want.choices:
            if d in self._gone:
                continue
            self._steps += 1
            if self._steps > _MOST_STEPS:
                return False
            alike = self._alike(d)
            if alike in tried or not self._holds(want, d):
                continue
            tried.add(alike)
            self._take(want, d)
            if self._place(i + 1):
                return True
            self._leave(want, d)
        return False

    def _alike(self, device: int) -> Any:
        """What tells a device apart for this search."""
        found = self._devices.supply.devices[device]
        seen = self._devices.offer.kind(device)
        return seen, tuple(repr(cells.value(found, name)) for name in self._names)

    def _holds(self, want: _Want, device: int) -> bool:
        found = self._devices.supply.devices[device]
        for slot in self._bound[id(want)]:
            value = cells.value(found, slot[1])
            if value is None:
                return False
            held = self._same.get(slot)
            if held and held[0] != value:
                return False
        return True

    def _take(self, want: _Want, device: int) -> None:
        self._gone.add(device)
        self._found[id(want)] = device
        for slot in self._bound[id(want)]:
            value = cells.value(self._devices.supply.devices[device], slot[1])
            self._same.setdefault(slot, []).append(value)

    def _leave(self, want: _Want, device: int) -> None:
        self._gone.discard(device)
        del self._found[id(want)]
        for slot in self._bound[id(want)]:
            self._same[slot].pop()


def allocation(grant: ClaimGrant, claim: Object, classes: dict[str, Object]) -> Object:
    """The `status.allocation` of a claim, with the settings of its classes and its own."""
    assert grant.results is not None, "only for claims that get their devices now"
    devices: Object = {
        "results": [
            {
                "request": r.request,
                "driver": r.device.driver,
                "pool": r.device.pool,
                "device": r.device.device,
                **({"adminAccess": True} if r.admin else {}),
            }
            for r in grant.results
        ]
    }
    config = list(_config(grant, claim, classes))
    if config:
        devices["config"] = config
    made: Object = {"devices": devices}
    if grant.held.nodes is not None:
        made["nodeSelector"] = {"nodeSelectorTerms": cells.terms(grant.held.nodes)}
    return made


def _config(grant: ClaimGrant, claim: Object, classes: dict[str, Object]) -> Iterator[Object]:
    spec = (claim.get("spec") or {}).get("devices") or {}
    used = {r.request for r in grant.results or ()}
    for raw in spec.get("requests") or ():
        for name, one in _stated(raw):
            if name not in used:
                continue
            found = classes.get(one.get("deviceClassName") or "") or {}
            for config in (found.get("spec") or {}).get("config") or ():
                yield {"source": "FromClass", "requests": [name], **config}
    for config in spec.get("config") or ():
        yield {"source": "FromClaim", **config}


def _stated(raw: Object) -> Iterator[tuple[str, Object]]:
    name = raw.get("name") or ""
    for one in raw.get("firstAvailable") or ():
        yield f"{name}/{one.get('name')}", one
    if not raw.get("firstAvailable"):
        yield name, raw.get("exactly") or raw

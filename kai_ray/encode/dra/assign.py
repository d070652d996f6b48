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

from kai_ray.cluster.port import Key
from kai_ray.encode.encoded import Encoded
from kai_ray.encode.gpu_table import told_devices
from kai_ray.encode.problems import Malformed
from kai_ray.scheduler import Plan

from . import cells
from .allocation import ClaimGrant, Result
from .asks import ALL, MOST_DEVICES, ClaimAsk, Option
from .attributes import Name
from .cards import slots_in_use
from .claims import Held, named_by
from .rows import Devices
from .search import Search, Want
from .slices import DeviceId


class Granted(NamedTuple):
    """Per pod: its claims, or why there is no device for it after all."""

    claims: tuple[ClaimGrant, ...] = ()
    refusal: str = ""


@dataclass(slots=True)
class _PodWants:
    task: int
    joins: list[ClaimGrant] = field(default_factory=list[ClaimGrant])
    claims: dict[Key, str] = field(default_factory=dict[Key, str])  # to be allocated: UID of each
    wants: list[Want] = field(default_factory=list[Want])
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
        hand_out = _HandOut(encoded, devices, plan)
        for node, tasks in by_node.items():
            found.update(hand_out.node(node, tasks))
    return found


class _HandOut:
    """Devices that are free at the start of a Plan, and what it has given of them so far."""

    def __init__(self, encoded: Encoded, devices: Devices, plan: Plan) -> None:
        self._encoded, self._devices = encoded, devices
        self._supply = devices.supply
        self._gone = {
            self._supply.row_of[d] for d in devices.table.taken() if d in self._supply.row_of
        }
        self._shared: dict[Key, ClaimGrant] = {}  # allocated in this Plan
        self._opened = self._open_cards(plan)

    def node(self, node: int, tasks: Sequence[int]) -> Iterator[tuple[int, Granted]]:
        first: set[Key] = set()
        self._leave_cards(node)
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

    def _open_cards(self, plan: Plan) -> dict[int, int]:
        """Per node row, cards that are shared, or opened by this Plan, and that no claim keeps yet.

        Which they will be is open, so as many are left over; one that is in use stays what it is.
        """
        names, devices = self._encoded.names, self._devices
        open_: dict[tuple[int, int], str] = {}
        for node, slot, task in slots_in_use(
            self._encoded.snapshot.gpus, self._encoded.snapshot.tasks
        ):
            group = names.device_group(node, slot)
            if node not in devices.cards or (node, group) in devices.kept:
                continue
            told = told_devices(names.pod_object(task) or {"metadata": {}}).get(group, "")
            open_[node, slot] = told or open_.get((node, slot), "")
        now = dict(zip(plan.bind_task.tolist(), plan.bind_node.tolist(), strict=True))
        for task, slot in zip(plan.grant_task.tolist(), plan.grant_slot.tolist(), strict=True):
            node = now.get(task, -1)
            if node in devices.cards and (node, names.device_group(node, slot)) not in devices.kept:
                open_.setdefault((node, slot), "")
        found: dict[int, int] = {}
        for (node, _), told in open_.items():
            known = devices.cards[node].rows.get(told)
            if known is None:
                found[node] = found.get(node, 0) + 1
            else:
                self._gone.add(known)
        return found

    def _leave_cards(self, node: int) -> None:
        """Leaves devices for cards that are opened: those that the fewest requests want."""
        cards = self._devices.cards.get(node)
        uses = self._devices.offer.uses
        free = sorted(
            (uses(d), d) for d in (cards.rows.values() if cards else ()) if d not in self._gone
        )
        self._gone |= {d for _, d in free[: self._opened.pop(node, 0)]}

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
            if count > MOST_DEVICES:
                words = f"all {count} devices are more than the {MOST_DEVICES} that a claim holds"
                into.refusal = f"claim {key.name}: {words}"
                continue
            if count == 0:
                into.refusal = f"claim {key.name}: no device suits request {request.name}"
            liked: list[tuple[Any, Name]] = [] if numa else [(("pod", into.task), cells.NUMA)]
            into.wants += [Want(key, name, option, suits, bound, liked) for _ in range(count)]

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
        found = Search(wants, set(self._gone), self._devices, near).run()
        if found is None and near:
            found = Search(wants, set(self._gone), self._devices, False).run()
        if found is not None and len(pods) > 1:
            self._gone.update(found.values())
        return found

    def _near(self, want: Want) -> bool:
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

"""Everything about devices that events have told, and what decisions have given away since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kai_ray.api.labels import GPU_DEVICE_CLASS
from kai_ray.cluster.port import Key, Object
from kai_ray.encode.node_rows import NodeTable
from kai_ray.encode.problems import Malformed, Problem, text
from kai_ray.scheduler.snapshot import Bools

from . import asks, claims, slices
from .cards import NodeCards, node_cards
from .claims import ClaimRow, Claims, Held
from .selectors import Selectors
from .slices import Device, DeviceId, Slice
from .supply import FitKey, NodeFacts, Supply

#: Reads an object, or says what is wrong with it.
Guarded = Callable[..., tuple[Any, Problem | None]]
Report = Callable[[str, Key, Problem | None], None]


class Given(NamedTuple):
    """What has been decided for a claim and does not stand in its status yet."""

    uid: str
    held: Held
    pods: frozenset[Key]  # those that it was decided for


class DeviceTable:
    """`version` moves with everything that a snapshot may show."""

    def __init__(self) -> None:
        self.claims = Claims()
        self.selectors = Selectors()
        self.slices: dict[str, Slice] = {}
        self.given: dict[Key, Given] = {}
        self.version = 0
        self.slice_version = 0
        self._devices: tuple[int, list[Device]] | None = None
        self._fits: dict[FitKey, Bools] = {}
        self._supply: tuple[tuple[int, int], Supply] | None = None
        self._cards: tuple[tuple[object, ...], dict[str, NodeCards]] | None = None

    @property
    def active(self) -> bool:
        """Whether any device is offered."""
        return bool(self.slices)

    def put(
        self, kind: str, key: Key, new: Object | None, guarded: Guarded, report: Report
    ) -> bool:
        """Takes in one object; whether pods that depend on it have to be looked at anew."""
        if kind == "ResourceSlice":
            return self._slice(key, new, guarded, report)
        if kind == claims.CLAIM:
            return self._claim(key, new, guarded, report)
        if kind == claims.TEMPLATE:
            before = key in self.claims.templates
            (self.claims.templates.discard if new is None else self.claims.templates.add)(key)
            return before != (new is not None)
        return self._class(key, new, guarded, report)

    def _slice(self, key: Key, new: Object | None, guarded: Guarded, report: Report) -> bool:
        before, row, problem = self.slices.pop(key.name, None), None, None
        if new is not None:
            row, problem = guarded("ResourceSlice", key, slices.read, new)
        report("ResourceSlice", key, problem or _left_out(key, row))
        if row is not None:
            self.slices[key.name] = row
        if row != before:
            self.version += 1
            self.slice_version += 1
        return False

    def _claim(self, key: Key, new: Object | None, guarded: Guarded, report: Report) -> bool:
        before, row, problem = self.claims.rows.pop(key, None), None, None
        if new is not None:
            row, problem = guarded(claims.CLAIM, key, claims.read, new)
            if row is None:
                words = problem.message if problem else "cannot be read"
                row = ClaimRow("", None, words, None, (), "", "", False)
            self.claims.rows[key] = row
        report(claims.CLAIM, key, problem)
        given = self.given.get(key)
        if given is not None and (row is None or row.uid != given.uid or row.held is not None):
            del self.given[key]
            self.version += 1
        if row == before:
            return False
        self.version += 1
        return (
            before is None
            or row is None
            or before._replace(consumers=()) != row._replace(consumers=())
        )

    def _class(self, key: Key, new: Object | None, guarded: Guarded, report: Report) -> bool:
        before, found, problem = self.claims.classes.pop(key.name, None), None, None
        if new is not None:
            found, problem = guarded(claims.DEVICE_CLASS, key, _class_selectors, new)
        report(claims.DEVICE_CLASS, key, problem)
        if found is not None:
            self.claims.classes[key.name] = found
        if found == before:
            return False
        self.version += 1
        return (found is None) != (before is None)

    def devices(self) -> list[Device]:
        """All devices that are offered, in the order of their names."""
        if self._devices is None or self._devices[0] != self.slice_version:
            self._devices = self.slice_version, slices.current(self.slices.values())
            self._fits = {}
        return self._devices[1]

    def supply(self, nodes: NodeTable) -> Supply:
        """The devices against the nodes there are."""
        version = self.slice_version, nodes.version
        if self._supply is None or self._supply[0] != version:
            devices = self.devices()
            rows = nodes.ordered()
            facts = [NodeFacts(n, row.labels) for n, row in zip(nodes.names, rows, strict=True)]
            found = Supply(devices, facts, self.claims.classes, self.selectors, self._fits)
            self._supply = version, found
        return self._supply[1]

    def cards(self, nodes: NodeTable) -> dict[str, NodeCards]:
        """GPUs that pods may share, by node."""
        whole = self.claims.classes.get(GPU_DEVICE_CLASS)
        version = self.slice_version, nodes.version, whole
        if self._cards is None or self._cards[0] != version:
            found = node_cards(self.supply(nodes), nodes) if whole is not None else {}
            self._cards = version, found
        return self._cards[1]

    def held(self, key: Key) -> Held | None:
        """What a claim holds, or has just been given."""
        row, given = self.claims.rows.get(key), self.given.get(key)
        if row is not None and row.held is not None:
            return row.held
        return given.held if given is not None else None

    def taken(self) -> dict[DeviceId, Key]:
        """Devices that claims hold, whoever's they are."""
        found: dict[DeviceId, Key] = {}
        for key in (*self.claims.rows, *self.given):
            held = self.held(key)
            if held is not None:
                found.update(dict.fromkeys(held.devices, key))
        return found

    def give(self, key: Key, uid: str, held: Held, pod: Key) -> None:
        """Counts devices as held from now on, until the claim says so or all pods `take_back`."""
        row, before = self.claims.rows.get(key), self.given.get(key)
        if row is None or row.uid != uid or row.held is not None:
            return
        pods = before.pods if before is not None and before.held == held else frozenset[Key]()
        self.given[key] = Given(uid, held, pods | {pod})
        self.version += 1

    def take_back(self, pod: Key) -> None:
        """A pod does not go where it was to go."""
        for key, given in list(self.given.items()):
            if pod in given.pods:
                left = given.pods - {pod}
                if left:
                    self.given[key] = given._replace(pods=left)
                else:
                    del self.given[key]
                self.version += 1


def _left_out(key: Key, row: Slice | None) -> Problem | None:
    if row is None or not row.left_out:
        return None
    shown = ", ".join(row.left_out[:3]) + (", ..." if len(row.left_out) > 3 else "")
    mend = f"{len(row.left_out)} devices are not given away: {shown}; offer them as whole devices"
    return Problem("ResourceSlice", key.namespace, key.name, "spec.devices", mend)


def _class_selectors(obj: Object) -> tuple[str, ...]:
    spec = obj.get("spec") or {}
    text(obj["metadata"].get("name"), "metadata.name")
    if not isinstance(spec, dict):
        raise Malformed("spec", "is not a map")
    return asks.selectors(spec.get("selectors"), "spec.selectors")

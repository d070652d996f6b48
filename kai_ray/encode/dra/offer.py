"""What devices can be given away, as resource rows that add up.

Requests see devices through predicates, and predicates overlap: "any GPU" may take what "an H100"
needs. Pods fit on a node together exactly if for every set of predicates that hang together no more
is asked of the devices they see than there are (Hall's theorem). So there is a row for each such
set U: it offers the devices that U sees; a request takes from it if U sees all that the request
sees, a device that is held if U sees it. With these rows the core's sums are exact, whichever
devices are handed out in the end.

A request for *all* devices needs a node where nobody else holds or asks for any of them: a row per
such predicate of which it takes everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kai_ray.scheduler.snapshot import Bools

from .asks import ALL, DeviceAsk, Option, Predicate
from .supply import Supply

#: More than any node has of anything: a row of which one pod can take everything.
EVERYTHING = 2**30
#: Different requests that are told apart at once, those without selectors of their own first.
MOST_PREDICATES = 256
#: Sets of predicates that hang together; beyond it only the largest and the smallest are kept.
_MOST_SETS = 256

#: What is behind the name of a class in the name of its row.
DEVICES = " devices"

Charge = dict[int, int]
"""Row -> amount."""


class _All(NamedTuple):
    row: int
    seen: frozenset[int]


class Offer:
    """Rows [R] over nodes [N] for the predicates in use; `free` [D] are devices nobody holds."""

    def __init__(self, supply: Supply, options: Iterable[Option], free: Bools) -> None:
        self.supply = supply
        options = sorted(set(options))
        taking = [o for o in options if not o.admin]
        predicates = sorted({o.predicate for o in taking}, key=_simplest)[:MOST_PREDICATES]
        fits = [supply.fits(p) for p in predicates]
        bits = np.zeros(len(supply.devices), dtype=object)
        for i, fit in enumerate(fits):
            bits[fit] += 1 << i
        self._bits: list[int] = [int(b) for b in bits]
        kinds = sorted(set(self._bits) - {0})
        self.seen: dict[Predicate, frozenset[int]] = {
            p: frozenset(k for k in kinds if k >> i & 1) for i, p in enumerate(predicates)
        }
        """Which kinds of devices a predicate sees; a kind is the set of predicates that see it.

        Predicates beyond the first so many are not among them: nothing is given for those.
        """
        self.names: list[str] = []
        self._columns: list[NDArray[np.int64]] = []
        counts = self._counts(kinds, free)
        self._sets(counts)
        self._beyond = -1
        if any(o.predicate not in self.seen for o in taking):
            self._beyond = self._row("devices of too many kinds", None)
        self._nothing = {p: self._row(_name(p), None) for p, s in self.seen.items() if not s}
        self._alls = {
            p: _All(self._row(f"all {_name(p)}", self._any(p)), self.seen[p])
            for p in sorted({o.predicate for o in taking if o.count == ALL} & set(self.seen))
        }
        self._looks = {
            o: self._row(f"{_name(o.predicate)} to look at", self._enough(o))
            for o in options
            if o.admin
        }
        self._of_kind: dict[int, Charge] = {}

    @property
    def allocatable(self) -> NDArray[np.int64]:
        """[R, N]"""
        shape = (len(self._columns), len(self.supply.nodes))
        return np.array(self._columns, dtype=np.int64).reshape(shape)

    def _counts(self, kinds: Sequence[int], free: Bools) -> dict[int, NDArray[np.int64]]:
        """Per kind, devices on each node: local ones all, remote ones while they are free."""
        bits = np.array(self._bits, dtype=object)
        usable = free | (self.supply.node >= 0)
        return {k: self.supply.per_node((bits == k).astype(np.bool_) & usable) for k in kinds}

    def _sets(self, counts: dict[int, NDArray[np.int64]]) -> None:
        found = _joined([s for s in self.seen.values() if s])
        self.unions: list[tuple[int, frozenset[int]]] = []
        """(row, the kinds of devices that it offers)."""
        none: NDArray[np.int64] = np.zeros(len(self.supply.nodes), dtype=np.int64)
        for union in found:
            inside = [p for p, s in self.seen.items() if s and s <= union]
            exact = [p for p in inside if self.seen[p] == union]
            name = " or ".join(_name(p) for p in (exact[:1] or inside))
            total = sum((counts[k] for k in union), none)
            self.unions.append((self._row(name, total), union))

    def _row(self, name: str, column: NDArray[np.int64] | None) -> int:
        name = name if len(name) <= 160 else name[:157] + "..."
        known, number, plain = set(self.names), 2, name
        while name in known:
            name, number = f"{plain} ({number})", number + 1
        self.names.append(name)
        if column is None:
            column = np.zeros(len(self.supply.nodes), dtype=np.int64)
        self._columns.append(column)
        return len(self.names) - 1

    def _any(self, predicate: Predicate) -> NDArray[np.int64]:
        here = self.supply.per_node(self.supply.fits(predicate)) > 0
        return np.where(here, EVERYTHING, 0)

    def _enough(self, option: Option) -> NDArray[np.int64]:
        here = self.supply.per_node(self.supply.fits(option.predicate)) >= max(option.count, 1)
        return np.where(here, EVERYTHING, 0)

    def gate(self, name: str, nodes: Bools) -> int:
        """A row that any number of pods may take from on these nodes [N], and none elsewhere."""
        return self._row(name, np.where(nodes, EVERYTHING, 0))

    def charge(self, options: Iterable[Option]) -> Charge:
        """What requests take of the rows before their devices are known."""
        found: Charge = {}
        for option in options:
            if option.admin:
                _add(found, self._looks[option], 1)
                continue
            seen = self.seen.get(option.predicate)
            if seen is None:
                _add(found, self._beyond, 1)
                continue
            if option.count != ALL:
                for row, union in self.unions:
                    if seen and seen <= union:
                        _add(found, row, option.count)
                if not seen:
                    _add(found, self._nothing[option.predicate], option.count)
            for predicate, one in self._alls.items():
                if option.count == ALL and predicate == option.predicate:
                    _add(found, one.row, EVERYTHING)
                elif seen & one.seen:
                    _add(found, one.row, EVERYTHING if option.count == ALL else option.count)
        return found

    def takes(self, device: int) -> Charge:
        """What a device that is held takes of the rows."""
        kind = self._bits[device]
        found = self._of_kind.get(kind)
        if found is None:
            rows = [row for row, union in self.unions if kind in union]
            rows += [one.row for one in self._alls.values() if kind in one.seen]
            found = self._of_kind[kind] = dict.fromkeys(rows, 1)
        return found

    def kind(self, device: int) -> int:
        """Which predicates see a device: equal numbers mean devices that requests cannot tell."""
        return self._bits[device]

    def uses(self, device: int) -> int:
        """By how many predicates a device is seen: those that few want are given first."""
        return self._bits[device].bit_count()


def _simplest(predicate: Predicate) -> tuple[int, int, Predicate]:
    return len(predicate.selectors), len(predicate.tolerations), predicate


def _add(into: Charge, row: int, amount: int) -> None:
    into[row] = into.get(row, 0) + amount


def _joined(sets: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """The sets and all unions of those that overlap."""
    base = sorted(set(sets), key=_order)
    found = dict.fromkeys(base)
    waiting = list(base)
    while waiting and len(found) < _MOST_SETS:
        one = waiting.pop()
        for other in base:
            both = one | other
            if one & other and both not in found:
                found[both] = None
                waiting.append(both)
    if len(found) >= _MOST_SETS:
        found = dict.fromkeys([*base, *_components(base)])
    return sorted(found, key=_order)


def _components(base: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Sets that hang together, as one."""
    found: list[frozenset[int]] = []
    for one in base:
        touching = [c for c in found if c & one]
        found = [c for c in found if not c & one]
        found.append(one.union(*touching))
    return found


def _order(one: frozenset[int]) -> tuple[int, list[int]]:
    return len(one), sorted(one)


def _name(predicate: Predicate) -> str:
    """How people are told of the devices: `gpu.nvidia.com devices`."""
    name = f"{predicate.device_class}{DEVICES}"
    if predicate.selectors:
        name += " with " + " and ".join(" ".join(s.split()) for s in predicate.selectors)
    return name


def options_of(ask: DeviceAsk) -> list[Option]:
    """The options of an ask that has been settled: one a request."""
    return [request.options[0] for claim in ask for request in claim.requests]


def settled(ask: DeviceAsk, supply: Supply, free: Bools, usable: Bools) -> DeviceAsk:
    """The ask with one option a request: the first with enough free devices on a node.

    Where no node has enough free, the first that a node could ever meet.
    """
    if all(len(r.options) == 1 for claim in ask for r in claim.requests):
        return ask
    return tuple(
        claim._replace(
            requests=tuple(
                r._replace(options=(_first(r.options, supply, free, usable),))
                for r in claim.requests
            )
        )
        for claim in ask
    )


def _first(options: Sequence[Option], supply: Supply, free: Bools, usable: Bools) -> Option:
    if len(options) == 1:
        return options[0]
    for only_free in (True, False):
        for option in options:
            fits = supply.fits(option.predicate)
            every = supply.per_node(fits)
            have = supply.per_node(fits & free) if only_free else every
            wanted = np.maximum(every, 1) if option.count == ALL else option.count
            if bool(((have >= wanted) & usable).any()):
                return option
    return options[0]

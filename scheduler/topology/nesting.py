"""Place an attempt under nested topology constraints: the search.

For each constraint the domains are tried in order, the narrowest wanted level first, each as a
trial on the ledger: what does not work out is rolled back. Inner constraints choose inside the
nodes that the outer one has chosen. Where an inner choice leaves its siblings no room, other inner
choices are tried before the outer one moves on, so that a placement is found if the tries suffice.

Limits: `MOST_TRIES` domains (or sets of domains) per attempt; inside one, pods are placed greedily
as everywhere. Cost: one vector operation per level and resource for each constraint, then one trial
per domain; for equal pods the sums are exact and the first trial is the last.
Source: KAI 0.17 plugin topology and AllocateJob; the order of choices and the search are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from ..actions.attempt import Attempt
from ..fit import Fits
from ..ledger import Ledger
from ..plan import DomainLack
from ..reason import Reason
from ..session import Placed
from ..snapshot import Bools, Ints
from .capacity import Capacities, Capacity
from .facts import NONE
from .lack import nearest
from .order import enough, ranked, tree_order
from .parts import LeafRun, Part
from .spanning import count_needed, spans
from .tree import ROOT, Tree

#: Node masks [N] that do not overlap, to be filled one after the other; None = all nodes.
Areas: TypeAlias = "tuple[Bools | None, ...]"
#: Places a run in the areas, appends what was placed, answers how many pods found no node.
PlaceRun: TypeAlias = Callable[[LeafRun, Areas, list[Placed]], int]
#: Trials of one attempt.
MOST_TRIES = 256


class Nesting:
    """One attempt of one gang."""

    def __init__(
        self,
        ledger: Ledger,
        fits: Fits,
        attempt: Attempt,
        place_run: PlaceRun,
        later_only: bool = False,
    ) -> None:
        """Unless `later_only`, domains with enough idle room come before those that release."""
        assert ledger.topology is not None, "some gang is constrained"
        self._ledger, self._bonds = ledger, ledger.topology
        self._capacities = Capacities(fits, self._bonds.trees)
        self._attempt, self._place_run = attempt, place_run
        self._prefer_now = ledger.any_releasing and not later_only
        self._tries = MOST_TRIES + len(attempt.runs)
        self.placed: list[Placed] = []
        self.failed = -1  # the class of the run that failed in the trial that came farthest
        self.farthest = 0  # pods placed in it
        self.lack: DomainLack | None = None
        self.reason = Reason.NONE

    def place(self, areas: Areas) -> bool:
        """Books nodes for all runs, or none; `placed`, or `failed` and `lack`, say how it went."""
        parts = self._bonds.constraints.parts(self._attempt)
        if isinstance(parts, Reason):
            self.reason = parts
            self.failed = self._attempt.runs[0][1][2]
            return False
        mark = self._ledger.trial()
        for _ in self._arrangements(parts, areas):
            return True
        self._ledger.roll_back(mark)
        self.placed.clear()
        self._explain(parts, areas)
        return False

    def _explain(self, parts: list[Part | LeafRun], areas: Areas) -> None:
        """Names the class and the domain that came nearest."""
        if self.failed < 0:
            self.failed = self._attempt.runs[0][1][2]
        first = next((part for part in parts if isinstance(part, Part)), None)
        if self.lack is None and first is not None:
            tree = self._bonds.trees[first.constraint.topology]
            capacity = self._capacities.of(first, _union(areas))
            self.lack = nearest(first, capacity, tree, tied=False)
        self.reason = Reason.TOPOLOGY_UNSATISFIED

    def _arrangements(self, items: list[Part | LeafRun], areas: Areas) -> Iterator[None]:
        """Yields with all items placed; asked again, with them placed in another way."""
        waiting: list[Iterator[None]] = []
        at = 0
        while at >= 0:
            if at == len(items):
                yield
                at -= 1
                continue
            if at == len(waiting):
                waiting.append(self._options(items[at], areas))
            if next(waiting[at], self) is not self:
                at += 1
            else:
                waiting.pop()
                at -= 1

    def _options(self, item: Part | LeafRun, areas: Areas) -> Iterator[None]:
        """The ways to place one item, each undone before the next."""
        if isinstance(item, Part):
            yield from self._choices(item, areas)
            return
        mark, before = self._ledger.trial(), len(self.placed)
        if self._place_run(item, areas, self.placed) == 0:
            yield
        else:
            self._note(item[1][2])
        self._ledger.roll_back(mark)
        del self.placed[before:]

    def _note(self, klass: int) -> None:
        pods = sum(one.pods for one in self.placed)
        if pods >= self.farthest:
            self.farthest, self.failed = pods, klass

    def _choices(self, part: Part, areas: Areas) -> Iterator[None]:
        """A part in each domain, or set of domains, that may hold it."""
        found = False
        for inside in self._areas(part, areas) if areas else ():
            if found:  # going on is free, going back is not
                if self._tries <= 0:
                    return
                self._tries -= 1
            found = True
            yield from self._arrangements(part.items, inside)
        if not found:
            self._note(next(iter(part.totals)))

    def _areas(self, part: Part, areas: Areas) -> Iterator[Areas]:
        """Where the part may go, the best first."""
        constraint, tree = part.constraint, self._bonds.trees[part.constraint.topology]
        seats = self._bonds.seats.of(part.row, self._ledger.nodes.count)
        union = _union(areas)
        tied = seats is not None and constraint.required != NONE
        if seats is not None and tied:
            union = _both(union, _company(tree, constraint.required, seats))
        capacity = self._capacities.of(part, union)
        idle = self._capacities.of(part, union, now=True) if self._prefer_now else None
        found = False
        for level in range(constraint.wanted, constraint.widest - 1, -1):
            fitting = enough(capacity, tree, level)
            if not fitting.any():
                continue
            found = True
            for domain in self._ranked(part, tree, level, fitting, capacity, idle, seats):
                inside = tree.nodes(level, domain)
                cut = _cut(areas, _both(union, inside))
                if level == constraint.wanted:
                    yield cut
                else:
                    yield from self._spread(part, tree, inside, cut, capacity, seats)
        if not found and (self.lack is None or not self.placed):
            self.lack = nearest(part, capacity, tree, tied)

    def _ranked(
        self,
        part: Part,
        tree: Tree,
        level: int,
        fitting: Bools,
        capacity: Capacity,
        idle: Capacity | None,
        seats: Ints | None,
    ) -> list[int]:
        """The domains that may hold the part: company, promises, idle room, few, tight, name."""
        keys: list[Ints] = []
        if seats is not None:
            keys += [
                tree.sums(wider, seats)[tree.ancestors(level, wider)].astype(np.int64)
                for wider in range(level, ROOT, -1)
            ]
        promised = self._promised(part)
        if promised is not None:
            keys.append(tree.sums(level, promised).astype(np.int64))
        if idle is not None:
            keys.append(enough(idle, tree, level).astype(np.int64))
        wanted = part.constraint.wanted
        if level < wanted and len(capacity.pods) == 1:
            copies, pods = capacity.pods[0]
            room = tree.sums(wanted, copies)
            above = tree.ancestors(wanted, level).astype(np.int64)
            keys.append(-count_needed(room, pods, above, tree.domains(level)))
        return ranked(fitting, tree_order(capacity, tree, level), *keys)

    def _promised(self, part: Part) -> Ints | None:
        """[N] pods of the part that are nominated to each node; None where there are none."""
        count: Ints | None = None
        for item in part.items:
            if isinstance(item, Part):
                inner = self._promised(item)
                if inner is not None:
                    count = inner if count is None else count + inner
            elif item[1][3] >= 0:
                if count is None:
                    count = np.zeros(self._ledger.nodes.count, dtype=np.int64)
                count[self._ledger.position[item[1][3]]] += item[1][1]
        return count

    def _spread(
        self,
        part: Part,
        tree: Tree,
        mask: Bools,
        areas: Areas,
        capacity: Capacity,
        seats: Ints | None,
    ) -> Iterator[Areas]:
        """The part over several domains of the wanted level inside `mask`, few before many.

        `areas` are what of that domain may be used.
        """
        level = part.constraint.wanted
        used = np.zeros(tree.domains(level), dtype=np.bool_)
        if seats is not None:
            used = tree.sums(level, seats) > 0
        place = tree_order(capacity, tree, level)
        for chosen in spans(capacity, tree, level, mask, place, used):
            inside: list[Bools | None] = []
            for domain in chosen:
                inside += _cut(areas, tree.nodes(level, domain))
            yield tuple(inside)


def _company(tree: Tree, level: int, seats: Ints) -> Bools:
    """[N] nodes of the domains in which members are already."""
    taken = np.append(tree.sums(level, seats) > 0, False)  # -1 reads the last: not in the topology
    company: Bools = taken[tree.domain[level]]
    return company


def _union(areas: Areas) -> Bools | None:
    union = areas[0]
    for area in areas[1:]:
        union = None if union is None or area is None else union | area
    return union


def _both(one: Bools | None, other: Bools) -> Bools:
    return other if one is None else one & other


def _cut(areas: Areas, mask: Bools) -> tuple[Bools, ...]:
    """What of each area lies in the mask, empty ones left out."""
    cut = [mask if area is None else area & mask for area in areas]
    return tuple(area for area in cut if area.any())

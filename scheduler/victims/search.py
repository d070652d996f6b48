"""Whom to evict for one gang: the first set of victims in KAI's order that serves it, made minimal.

1. Gangs are asked in the order in which they go (order.py). More that leave never make less room,
   so the shortest prefix with enough room by sums is found by doubling and halving (room.py).
2. From there on sets are tried in a simulation (simulation.py), for each prefix: what of it is
   needed for the room; what stands in the domain of its newest member, if the gang must have a
   whole one; what stands on a node of it; all of it. A rule judges the
   outcome. Prefixes grow one by one, later by doubling: more rarely helps where less did not.
3. Of the set that serves nobody can stay: members are dropped, those that would go last first, as
   long as the rest serves.

Source of order and acceptance: KAI 0.17, solver and its two generators. The way there is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Protocol

import numpy as np

from ..actions.attempt import Attempt
from ..reason import Reason
from ..snapshot import Bools, Ints
from ..topology.freeing import whole_domain
from .books import VictimBooks
from .order import Spare, VictimOrder
from .room import Room
from .simulation import Outcome, Simulation
from .steps import Step

#: Prefixes that are tried one by one before they grow by doubling.
_ONE_BY_ONE = 24
#: Steps of which every set is tried before a gang is refused.
_FEW = 5
#: Simulations that making a set minimal may take; the room test needs none.
_MOST_DROPS = 64


class Rule(Protocol):
    """What an action demands of victims."""

    reason: Reason

    def leaves(self) -> list[int]:
        """Leaf queues that may lose pods, of those with `VictimBooks.victims`."""
        ...

    def spare(self, gang: int) -> Spare:
        """What may be taken of a gang."""
        ...

    def admits(self, step: Step) -> bool:
        """Whether a step may follow the steps admitted so far (disruption budgets)."""
        ...

    def hopeless(self, lacking: Ints) -> bool:
        """Whether sums say already that nothing legal frees `lacking` [R]."""
        ...

    def most_steps(self) -> int | None:
        """How many steps may be considered."""
        ...

    def legal(self, outcome: Outcome) -> bool:
        """Whether the state after is allowed."""
        ...


class Search:
    """One search for one gang."""

    def __init__(self, books: VictimBooks, gang: int, attempt: Attempt, rule: Rule) -> None:
        self._books, self._rule = books, rule
        self._simulation = Simulation(books, gang, attempt)
        bonds = books.ledger.topology
        bound = bonds is not None and gang in bonds.constraints.gangs
        whole = whole_domain(bonds, gang, attempt)
        self._room = Room(books, books.ledger.path(books.queue[gang]), attempt, bound, whole)
        self._order = VictimOrder(books, rule.leaves(), rule.spare, rule.admits)
        self._most = rule.most_steps()
        self._steps: list[Step] = []
        self._stands: list[frozenset[int]] = []  # nodes of the first steps
        self._ended = False
        self._tried: set[frozenset[int]] = set()
        self._lengths: list[int] = []  # prefixes that did not serve
        self._drops = 0

    def find(self) -> Outcome | None:
        """An outcome that stands on the ledger, or None with the ledger as it was."""
        if self._rule.hopeless(self._room.lacking()):
            return None
        size = 1
        while not self._room.enough(self._grown_to(size)):
            if self._ended:
                return None
            size *= 2
        length = self._room.shortest(self._steps)
        stride = 1
        while length:
            outcome = self._first(self._sets(self._steps[:length]))
            if outcome is not None:
                return outcome
            self._lengths.append(length)
            stride = stride if len(self._lengths) < _ONE_BY_ONE else stride * 2
            length = self._next_length(length, stride)
        return self._first(self._needed_only())

    def _first(self, sets: Iterator[list[Step]]) -> Outcome | None:
        """The outcome of the first set that serves, each being tried once in a search."""
        for chosen in sets:
            kind = frozenset(step.positions[0] for step in chosen)
            if kind in self._tried:
                continue
            self._tried.add(kind)
            outcome = self._serves(chosen)
            if outcome is not None:
                return self._minimal(outcome, chosen)
        return None

    def _needed_only(self) -> Iterator[list[Step]]:
        """Of longer prefixes, what room needs with their newest member, and of few steps all sets:
        a last resort, because some who stay would go before some who leave."""
        if self._room.exact:
            for length in self._lengths[1:]:
                yield self._room.without_spare(self._steps[:length], keep=length - 1)
        if len(self._steps) <= _FEW:
            for size in range(1, len(self._steps)):
                for chosen in combinations(self._steps, size):
                    if _closed(chosen, self._steps) and self._room.enough(chosen):
                        yield list(chosen)

    def _grown_to(self, size: int) -> list[Step]:
        """The first `size` steps, fewer where there are no more."""
        while len(self._steps) < size and not self._ended:
            step: Step | None = None
            if self._most is None or len(self._steps) < self._most:
                step = self._order.next()
            if step is None:
                self._ended = True
            else:
                self._steps.append(step)
        return self._steps[:size]

    def _next_length(self, length: int, stride: int) -> int:
        """A longer prefix, the whole order last; 0 after that."""
        have = len(self._grown_to(length + stride))
        return have if have > length else 0

    def _sets(self, steps: list[Step]) -> Iterator[list[Step]]:
        """What the shortest prefix needs for room; then, in longer ones too, all that stands on a
        node of the newest member, and all: the order says who of them keeps a place."""
        if not self._lengths and self._room.exact:
            yield self._room.without_spare(steps, keep=len(steps) - 1)
        held, whole = self._books.held, self._room.whole
        for step in self._steps[len(self._stands) : len(steps)]:
            self._stands.append(frozenset(map(held.node_of, step.positions)))
        newest = sorted(self._stands[len(steps) - 1])
        places = [] if whole is None else [set(_rows(mask)) for mask in whole.around(newest)]
        for place in (*places, *({node} for node in newest)):
            there = [not place.isdisjoint(stand) for stand in self._stands[: len(steps)]]
            cores = {s.gang for s, on_it in zip(steps, there, strict=True) if on_it and s.core}
            chosen = [s for s, on_it in zip(steps, there, strict=True) if on_it or s.gang in cores]
            if len(chosen) < len(steps) and self._room.enough(chosen):
                yield chosen
        yield steps

    def _serves(self, steps: Sequence[Step]) -> Outcome | None:
        outcome = self._simulation.run(steps)
        if outcome is not None and not (self._steady(outcome) and self._rule.legal(outcome)):
            self._books.ledger.roll_back(outcome.mark)
            return None
        return outcome

    def _steady(self, outcome: Outcome) -> bool:
        """Whether nobody is moved again who is just arriving: that gang would stay in parts."""
        movers = self._books.session.movers
        return not movers or all(one.gang not in movers for one in outcome.moved.values())

    def _minimal(self, outcome: Outcome, chosen: Sequence[Step]) -> Outcome:
        """Drops victims that are not needed, the last in the order first."""
        kept = [step for step in chosen if outcome.away(step)]
        found: Outcome | None = outcome
        serves = list(chosen)  # the last set that did, members included that came back
        if self._needed_for_room(kept):
            return outcome
        for step in kept[::-1]:
            if step not in kept or self._drops >= _MOST_DROPS:
                continue
            fewer = [s for s in kept if s is not step and not _hangs_on(s, step)]
            if not fewer or not self._room.enough(fewer):
                continue
            self._drops += 1
            if found is not None:
                self._books.ledger.roll_back(found.mark)
            found = self._serves(fewer)
            if found is not None:
                serves, kept = fewer, [s for s in fewer if found.away(s)]
                if self._needed_for_room(kept):
                    break
        if found is None:
            found = self._serves(serves)
            assert found is not None, "the same set serves again"
        return found

    def _needed_for_room(self, steps: list[Step]) -> bool:
        """Whether the sums alone say that nobody of `steps` can stay."""
        return len(steps) <= 1 or (
            self._room.exact and len(self._room.without_spare(steps, keep=-1)) == len(steps)
        )


def _rows(mask: Bools) -> list[int]:
    return np.flatnonzero(mask).tolist()


def _closed(chosen: Sequence[Step], steps: Sequence[Step]) -> bool:
    """Whether a gang's core goes only with all of its surplus."""
    cores = {step.gang for step in chosen if step.core}
    return all(step in chosen for step in steps if step.gang in cores)


def _hangs_on(step: Step, other: Step) -> bool:
    """Whether a step of a gang's core cannot go unless a step of its surplus goes too."""
    return step.gang == other.gang and step.core and not other.core

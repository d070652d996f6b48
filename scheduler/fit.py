"""THE primitive: how many copies of a class fit on each node, and which node is best.

One `Fit` per class and cycle. It remembers how far it has read the ledger's list of changed nodes
and recomputes those columns only; a class that looks at other pods is recomputed whole when one of
those came or went. Placement, explanation and the capacity of a set of nodes read the same arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .filters.resources import copies
from .gpu.facts import GpuKind
from .gpu.room import ClaimRoom, SharedRoom
from .ledger import Ledger
from .rules import ALL, At, Filter, Reads, Score
from .snapshot import GPU, Bools, ClassRules, Floats, Ints

_OUT = -np.inf


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of a class per node of the ledger, [N]."""

    now: Ints  # into idle room
    later: Ints  # into idle room and what is being released; at least `now`
    exact_sum: bool  # whether the copies of several nodes may be added up


class Offer(NamedTuple):
    """A node and the copies it takes in a row; `later` = only once releasing room is free."""

    node: int
    room: int
    later: bool


NO_OFFER = Offer(-1, 0, False)


class Fit:
    """One class against all nodes, kept up to date with the ledger."""

    def __init__(
        self, ledger: Ledger, klass: int, filters: tuple[Filter, ...], scores: tuple[Score, ...]
    ) -> None:
        self.ledger, self.klass = ledger, klass
        self.rules: ClassRules = ledger.snapshot.classes.rules[klass]
        self.request: Ints = ledger.snapshot.classes.request[:, klass]
        self.asked = tuple(np.flatnonzero(self.request > 0).tolist())
        self._set_gpus()
        book = ledger.gpus
        claims = book.claims_of[klass] if book else ()
        self._counters = (*ledger.peers[klass].counters(), *claims)
        count = ledger.nodes.count
        self.now: Ints = np.zeros(count, dtype=np.int64)
        self.later: Ints = np.zeros(count, dtype=np.int64)
        self._seen = -1
        self._moves = 0
        #: Whether a node takes one copy at most.
        self.single = any(f.single(ledger, klass) for f in filters if f.single)
        self.suits = self._facts(filters)
        #: Whether no node can ever take a pod of the class, however empty it were.
        self.nowhere = not bool(
            (self.suits & (ledger.nodes.allocatable >= self.request[:, None]).all(axis=0)).any()
        )
        self._moving = tuple(f for f in filters if f.reads and self._concerns(f))
        self._set_scores(scores)
        rules = (*self._moving, *self._scores)
        #: Whether pods elsewhere matter: then copies of nodes do not add up.
        self.linked = any(rule.reads is Reads.PEERS for rule in rules)
        one_by_one = self.linked or self.shared is not None or self.cells is not None
        self.packs = not one_by_one and all(score.packs for score in self._scores)
        self.value: Floats = np.full(count, _OUT)
        """[N] the sum of all scores where a copy fits, -inf elsewhere."""
        self._offer: Offer = NO_OFFER  # what is left of the last one
        self._offer_end = -1  # length of the ledger's list of changes for which it holds
        self._within: Bools | None = None  # ... and the question that it answers
        self._later_only = False

    def _set_gpus(self) -> None:
        """How the class asks for GPUs, and the room that this is a matter of."""
        book, klass = self.ledger.gpus, self.klass
        self.asks_gpu = bool(self.request[GPU] > 0)
        self.shared: SharedRoom | None = None
        """Room on shared devices, for a class that takes part of one."""
        self._claims: ClaimRoom | None = None
        cells = self.ledger.cells
        self.cells = cells if cells is not None and cells.concern(klass) else None
        """Zones inside nodes, for a class that is aligned."""
        if book is None:
            return
        self.asks_gpu |= book.facts.kind[klass] not in (GpuKind.NONE, GpuKind.LEGACY_MIG)
        if book.shares[klass]:
            self.shared = SharedRoom(self.ledger, klass)
        if book.claims_of[klass]:
            self._claims = ClaimRoom(self.ledger, book.claims_of[klass])

    def _facts(self, filters: tuple[Filter, ...]) -> Bools:
        """[N] nodes that no unchanging filter refuses."""
        suits = np.ones(self.ledger.nodes.count, dtype=np.bool_)
        for rule in filters:
            if rule.reads is Reads.FACTS:
                allowed = rule.allows(self.ledger, self.klass, ALL)
                if allowed is not None:
                    suits &= allowed
        return suits

    def _concerns(self, rule: Filter) -> bool:
        return rule.allows(self.ledger, self.klass, ALL) is not None

    def _set_scores(self, scores: tuple[Score, ...]) -> None:
        """Splits scores into a fixed sum and those that move."""
        self._fixed: Floats = np.zeros(self.ledger.nodes.count)
        moving: list[Score] = []
        for score in scores:
            rated = score.rate(self, ALL)
            if rated is None:
                continue
            if score.reads is Reads.FACTS:
                self._fixed += score.weight * rated
            else:
                moving.append(score)
        self._scores = tuple(moving)

    def free(self, row: int, at: At) -> Ints:
        """Idle and releasing amount of a resource on the nodes `at`."""
        free = self.ledger.idle[row, at]
        return free + self.ledger.releasing[row, at] if self.ledger.any_releasing else free

    def refresh(self) -> None:
        """Brings the arrays up to date with the ledger."""
        changed = self.ledger.changed
        end, seen = len(changed), self._seen
        if seen == end:
            return
        self._seen = end
        if seen < 0 or self._company_moved() or (end - seen) * 4 > self.ledger.nodes.count + 64:
            self._compute(ALL)
        elif end - seen == 1:
            self._compute(np.array(changed[seen:], dtype=np.int32))
        else:
            self._compute(np.array(sorted(set(changed[seen:])), dtype=np.int32))

    def _company_moved(self) -> bool:
        """Whether pods that the class looks at came or went; rules without counters may say so."""
        before, self._moves = self._moves, sum(counter.moves for counter in self._counters)
        return self.linked and (before != self._moves or not self._counters)

    def _compute(self, at: At) -> None:
        ledger = self.ledger
        now, later = self._plain_copies(at)
        if self.shared is not None:
            shared_now, shared_later = self.shared.copies(at)
            now, later = np.minimum(now, shared_now), np.minimum(later, shared_later)
        if self.cells is not None:
            for zones_now, zones_later in self.cells.room(self.klass, at):
                now, later = np.minimum(now, zones_now), np.minimum(later, zones_later)
        allowed = self.suits[at]
        for rule in self._moving:
            held = rule.allows(ledger, self.klass, at)
            if held is not None:
                allowed = allowed & held
        later = np.where(allowed, np.minimum(later, 1) if self.single else later, 0)
        self.later[at] = later
        self.now[at] = np.minimum(now, later)
        value = self._fixed[at] + 0.0  # a copy, also of a slice
        for score in self._scores:
            rated = score.rate(self, at)
            if rated is not None:
                value += score.weight * rated
        value[later <= 0] = _OUT
        self.value[at] = value

    def _plain_copies(self, at: At) -> tuple[Ints, Ints]:
        """Copies by amounts: into idle room, into that and what is being released."""
        ledger, request, asked = self.ledger, self.request, self.asked
        if self._claims is not None:
            idle, both = self._claims.free(at)
            most = self._claims.pods()
            later = np.minimum(copies(both, request, asked), most)
            return np.minimum(copies(idle, request, asked), later), later
        idle = ledger.idle[:, at]
        now = later = copies(idle, request, asked)
        if ledger.any_releasing:
            later = copies(idle + ledger.releasing[:, at], request, asked)
            now = np.minimum(now, later)
        return now, later

    def offer(
        self,
        nominated: int = -1,
        bonus: float = 0.0,
        within: Bools | None = None,
        later_only: bool = False,
    ) -> Offer:
        """The node that takes the next copies, and how many before another look is due.

        Idle room comes before releasing room; with `later_only` both count as one and nothing is
        taken now. Equals: the first node by name. `nominated` is a node whose value counts `bonus`
        more. `within` [N] are the nodes to choose from. A class that packs keeps its node while
        copies fit there, so a run of equal pods costs one look per node.
        """
        if self._offer_end == len(self.ledger.changed) and self._offered_for(
            nominated, within, later_only
        ):
            return self._offer
        self.refresh()
        if not self.value.shape[0]:
            return NO_OFFER
        values = self.value if within is None else np.where(within, self.value, _OUT)
        node = int(values.argmax())
        value = values[node]
        if nominated >= 0 and values[nominated] + bonus >= value:
            node, value = nominated, values[nominated]
        if value == _OUT:
            return NO_OFFER
        now = 0 if later_only else int(self.now[node])
        room = now or int(self.later[node])
        self._offer_end, self._within, self._later_only = -1, within, later_only
        return Offer(node, room if self.packs else 1, now == 0)

    def _offered_for(self, nominated: int, within: Bools | None, later_only: bool) -> bool:
        """Whether what is left of the last offer answers this question too."""
        return nominated < 0 and within is self._within and later_only == self._later_only

    def took(self, offer: Offer, pods: int) -> None:
        """Says that `pods` copies of the offer have just been booked."""
        left = offer.room - pods
        if self.packs and left > 0:
            self._offer = Offer(offer.node, left, offer.later)
            self._offer_end = len(self.ledger.changed)

    def copies(self) -> Copies:
        """How many copies fit on each node, as things stand."""
        self.refresh()
        return Copies(self.now, self.later, not self.linked)


class Fits:
    """The fits of a cycle, made when a class is first asked for."""

    def __init__(
        self, ledger: Ledger, filters: tuple[Filter, ...], scores: tuple[Score, ...]
    ) -> None:
        self.ledger, self.filters, self.scores = ledger, filters, scores
        self._made: dict[int, Fit] = {}

    def get(self, klass: int) -> Fit:
        """The fit of a class; its arrays may be behind until `refresh`."""
        fit = self._made.get(klass)
        if fit is None:
            fit = self._made[klass] = Fit(self.ledger, klass, self.filters, self.scores)
        return fit

    def of(self, klass: int) -> Fit:
        """The fit of a class, up to date."""
        fit = self.get(klass)
        fit.refresh()
        return fit

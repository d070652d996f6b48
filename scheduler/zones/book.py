"""What each zone has free, which pods hold what of it, and how to take that back.

Kept beside the ledger's amounts and moved with them: `idle` is free now, `coming` is about to be
(negative where it has been promised). Every change is an entry that can be undone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..snapshot import Bools, Codes, Ints, Snapshot, TaskState
from .align import Aligned, align, copies
from .facts import Unit, ZonePolicy, Zones


@dataclass(frozen=True, slots=True)
class Draw:
    """What one pod holds of the zones of its node."""

    node: int  # of the ledger
    amounts: Ints  # [Z, A]

    def same(self, other: Draw | None) -> bool:
        """Whether both are of the same zones."""
        if other is None or self.node != other.node:
            return False
        return bool((self.amounts == other.amounts).all())


@dataclass(slots=True)
class Change:
    """One step of the book, as it is undone."""

    task: int
    node: int
    idle: Ints | int
    coming: Ints | int
    held: Draw | None  # before
    left: Draw | None  # before


class ZoneBook:
    """The zones of all nodes over one cycle. Nodes are the ledger's."""

    def __init__(self, snapshot: Snapshot, zones: Zones, order: Codes, position: Codes) -> None:
        self.facts = _reordered(zones, order)
        self.idle: Ints = self.facts.available.copy()
        self.coming: Ints = np.zeros_like(self.idle)
        self.held: dict[int, Draw] = {}
        """Per task: what it holds, or is promised."""
        self._left: dict[int, Draw] = {}  # per task that was taken away: what it held
        self.concerned: list[bool] = [unit is not None for unit in zones.pod_unit]
        """[C] classes that are aligned anywhere."""
        self._own: list[int] = zones.own_policy.tolist()
        self._policy: Ints = self.facts.policy.astype(np.int64)
        self._read_holds(snapshot, zones, position)

    def _read_holds(self, snapshot: Snapshot, zones: Zones, position: Codes) -> None:
        """Pods that are leaving hold their zones until they are gone."""
        state: list[int] = snapshot.tasks.state.tolist()
        at: Codes = position[snapshot.tasks.node]
        node: list[int] = at.tolist()
        columns = (zones.hold_task, zones.hold_zone, zones.hold_row, zones.hold_amount)
        rows: list[tuple[int, int, int, int]] = np.column_stack(columns).tolist()
        for task, zone, row, amount in rows:
            if node[task] < 0:
                continue
            if state[task] == TaskState.RELEASING:
                self.idle[zone, row, node[task]] -= amount
                self.coming[zone, row, node[task]] += amount
                continue
            draw = self.held.get(task)
            if draw is None:
                empty: Ints = np.zeros(self.idle.shape[:2], dtype=np.int64)
                draw = self.held[task] = Draw(node[task], empty)
            draw.amounts[zone, row] += amount

    # ---- what would fit

    def policy(self, klass: int, at: slice | Codes) -> Ints:
        """[n] how strictly the class is aligned on each node: the stricter of both."""
        strict: Ints = np.full_like(self._policy, self._own[klass])
        policy: Ints = np.maximum(self._policy, strict)
        return policy[at]

    def strict(self, klass: int) -> bool:
        """Whether the class asks itself for what only nodes with zones can promise."""
        return self._own[klass] >= ZonePolicy.RESTRICTED

    def lax(self, klass: int, at: slice | Codes) -> Bools:
        """[n] nodes where the class fits however badly it is aligned."""
        without: Bools = self.facts.count[at] == 0
        if self.strict(klass):
            return np.zeros_like(without)
        return (self.policy(klass, at) <= ZonePolicy.BEST_EFFORT) | without

    def allows(self, klass: int, at: slice | Codes) -> Bools:
        """[n] nodes where a pod of the class can be aligned as it must be."""
        here = self.facts.count[at] > 0
        return self.lax(klass, at) | (self.aligned(klass, at).fine & here)

    def units(self, klass: int, per_container: bool) -> tuple[Unit, ...]:
        """What of the class is aligned together."""
        if per_container:
            return self.facts.units[klass]
        unit = self.facts.pod_unit[klass]
        return () if unit is None else (unit,)

    def aligned(self, klass: int, at: slice | Codes, now: bool = False) -> Aligned:
        """Where a pod would go on the nodes `at`; nodes without zones count as fine, span 0."""
        room = self._room(at, now)
        facts = self.facts
        per_container = facts.per_container[at]
        fine = np.ones(per_container.shape[0], dtype=np.bool_)
        span = np.zeros(per_container.shape[0], dtype=np.int64)
        drawn = np.zeros_like(room)
        here = facts.count[at] > 0
        for scope in (False, True):
            some = np.flatnonzero(here & (per_container == scope))
            units = self.units(klass, scope)
            if some.size and units:
                found = align(
                    room[:, :, some],
                    facts.allocatable[:, :, at][:, :, some],
                    facts.aware[:, at][:, some],
                    self.policy(klass, at)[some],
                    units,
                )
                fine[some], span[some], drawn[:, :, some] = found
        return Aligned(fine, span, drawn)

    def copies(self, klass: int, at: slice | Codes, now: bool) -> Ints:
        """[n] pods of the class that the zones take, at most."""
        facts = self.facts
        per_container = facts.per_container[at]
        room = self._room(at, now)
        most = np.full(per_container.shape[0], np.iinfo(np.int32).max, dtype=np.int64)
        here = facts.count[at] > 0
        if self.strict(klass):
            most[~here] = 0
        for scope in (False, True):
            some = np.flatnonzero(here & (per_container == scope))
            units = self.units(klass, scope)
            if some.size and units:
                most[some] = copies(
                    room[:, :, some],
                    facts.aware[:, at][:, some],
                    self.policy(klass, at)[some],
                    facts.allocatable[:, :, at][:, :, some],
                    units,
                )
        return most

    def _room(self, at: slice | Codes, now: bool) -> Ints:
        both = self.idle[:, :, at] + self.coming[:, :, at]
        return np.maximum(np.minimum(self.idle[:, :, at], both) if now else both, 0)

    def charged(self, klass: int, node: int) -> bool:
        """Whether pods of the class are accounted to zones of the node."""
        at = np.array([node], dtype=np.int32)
        if not self.concerned[klass] or self.facts.count[node] == 0:
            return False
        return bool(self.policy(klass, at)[0] > ZonePolicy.NONE)

    # ---- what moves

    def take(self, task: int, klass: int, node: int, later: bool) -> Change | None:
        """A pod gets its place; None where its class is not accounted there."""
        if not self.charged(klass, node):
            return None
        found = self.aligned(klass, np.array([node], dtype=np.int32), now=not later)
        amounts: Ints = found.drawn[:, :, 0]
        if later:
            return self._move(task, node, 0, -amounts, Draw(node, amounts), self._left.get(task))
        return self._move(task, node, -amounts, 0, Draw(node, amounts), self._left.get(task))

    def give_up(self, task: int) -> Change | None:
        """A pod that holds zones is to leave, or loses a promise of this cycle."""
        draw = self.held.get(task)
        return draw and self._move(task, draw.node, 0, draw.amounts, None, draw)

    def drop(self, task: int) -> Change | None:
        """A pod that found another place does not take it after all."""
        draw = self.held.get(task)
        return draw and self._move(task, draw.node, 0, draw.amounts, None, self._left.get(task))

    def come_back(self, task: int) -> Change | None:
        """A pod that was taken away holds what it held before."""
        draw = self._left.get(task)
        return draw and self._move(task, draw.node, 0, -draw.amounts, draw, None)

    def vacate(self, task: int) -> Change | None:
        """What a pod gave up that never ran is free now."""
        draw = self._left.get(task)
        return draw and self._move(task, draw.node, draw.amounts, -draw.amounts, None, None)

    def settle(self, task: int, later: bool) -> Change | None:
        """A place on free room becomes a promise, or the other way round."""
        draw = self.held.get(task)
        if draw is None:
            return None
        amounts = draw.amounts if later else -draw.amounts
        return self._move(task, draw.node, amounts, -amounts, draw, self._left.get(task))

    def short(self, node: int) -> bool:
        """Whether more of a zone has been given away than there is."""
        return bool((self.idle[:, :, node] + self.coming[:, :, node] < 0).any())

    def moved(self, task: int) -> bool:
        """Whether a pod that was taken away holds other zones now."""
        before, now = self._left.get(task), self.held.get(task)
        return before is not None and not before.same(now)

    def undo(self, change: Change) -> None:
        self.idle[:, :, change.node] -= change.idle
        self.coming[:, :, change.node] -= change.coming
        self._set(change.task, change.held, change.left)

    def _move(
        self,
        task: int,
        node: int,
        idle: Ints | int,
        coming: Ints | int,
        held: Draw | None,
        left: Draw | None,
    ) -> Change:
        change = Change(task, node, idle, coming, self.held.get(task), self._left.get(task))
        self.idle[:, :, node] += idle
        self.coming[:, :, node] += coming
        self._set(task, held, left)
        return change

    def _set(self, task: int, held: Draw | None, left: Draw | None) -> None:
        for table, draw in ((self.held, held), (self._left, left)):
            if draw is None:
                table.pop(task, None)
            else:
                table[task] = draw


def _reordered(zones: Zones, order: Codes) -> Zones:
    return replace(
        zones,
        count=zones.count[order],
        policy=zones.policy[order],
        per_container=zones.per_container[order],
        allocatable=zones.allocatable[:, :, order],
        available=zones.available[:, :, order],
        aware=zones.aware[:, order],
    )

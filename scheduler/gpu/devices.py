"""The book of every shared device: who holds how much of it, now and once others have left.

Three amounts per slot, in MiB: `firm` belongs to pods that stay, `leaving` to pods that are being
deleted, `promised` to pods that wait for room there. A slot with firm or leaving memory takes one
whole GPU of its node's idle ones; with firm or promised memory, one of those that will be idle.
So whole-GPU pods never land on a shared device, and a device returns when its last user goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..snapshot import GPU, Bools, Ints, Nodes, Snapshot
from .facts import UNKNOWN_CARD, GpuKind, Gpus, shared_kind
from .order import DeviceOrder

#: MiB that a closed device holds for nobody.
_TRACE = 1
_EPSILON = 1e-6  # a portion times a card's memory that is whole but for rounding stays whole


class Choice(NamedTuple):
    """Slots of one node for one pod; `later` = only once others have left."""

    slots: tuple[int, ...]
    later: bool


@dataclass(frozen=True, slots=True)
class Overfull:
    """A device that was promised beyond its memory."""

    node: int
    slot: int


class DeviceBook:
    """Slots of all nodes, [D, N]; nodes in the ledger's order."""

    def __init__(self, snapshot: Snapshot, nodes: Nodes, origin: NDArray[np.int32]) -> None:
        gpus = snapshot.gpus
        assert gpus is not None, "a book of devices needs the table of GPUs"
        self._gpus: Gpus = gpus
        known: Ints = gpus.memory[origin]
        self.known: Bools = known > 0
        """[N] nodes that say how much memory a card has."""
        self.card: Ints = np.where(known > 0, known, UNKNOWN_CARD)
        """[N] MiB of each card."""
        self._cards: list[int] = self.card.tolist()
        held = int(gpus.hold_slot.max(initial=-1)) + 1
        held = max((held, *(slot + 1 for _, slot in gpus.closed)))
        rows = max(int(nodes.allocatable[GPU].max(initial=0)), held)
        if not any(shared_kind(kind) for kind in set(gpus.kind.tolist())):
            rows = 0
        shape = (rows, nodes.count)
        self.count: list[int] = nodes.allocatable[GPU].tolist()
        """Devices per node."""
        self.firm: Ints = np.zeros(shape, dtype=np.int64)
        self.leaving: Ints = np.zeros(shape, dtype=np.int64)
        self.promised: Ints = np.zeros(shape, dtype=np.int64)
        self.closed: Bools = np.zeros(shape, dtype=np.bool_)
        """Devices that fail: who holds them stays, nobody else gets any of them."""
        self._needs: dict[int, Ints] = {}
        self.devices: list[int] = np.maximum(gpus.devices, 1).tolist()
        """[C] distinct devices that a pod of the class holds."""
        self._ceiling: tuple[Ints, Ints] = (self.card, self.card)

    def need(self, klass: int) -> Ints:
        """[N] MiB that a pod of the class takes of each of its devices there."""
        found = self._needs.get(klass)
        if found is None:
            gpus = self._gpus
            if gpus.kind[klass] == GpuKind.MEMORY:
                wanted = np.full(self.card.shape[0], int(gpus.mib[klass]), dtype=np.int64)
            else:
                part = float(gpus.portion[klass]) * self.card + _EPSILON
                wanted = np.floor(part).astype(np.int64)
            found = self._needs[klass] = np.maximum(wanted, 1)
        return found

    def close(self, slot: int, node: int) -> None:
        """Marks a device as failing; a trace of it stays in use, so it never counts as free."""
        self.closed[slot, node] = True
        self.firm[slot, node] += _TRACE

    def seal(self) -> None:
        """What is on the devices now may be too much; nothing may make it worse."""
        now = np.maximum(self.card, self.firm + self.leaving)
        later = np.maximum(self.card, self.firm + self.promised)
        self._ceiling = now, later

    def move(
        self, klass: int, node: int, slot: int, firm: int, leaving: int, promised: int
    ) -> tuple[int, int]:
        """Moves pods of a class on one slot; answers (idle, releasing) whole GPUs that come free.

        A placement is (1, 0, 0), a nomination (0, 0, 1), an eviction (-1, 1, 0).
        """
        each = int(self.need(klass)[node])
        f, g, p = self.firm, self.leaving, self.promised
        stays, goes, comes = int(f[slot, node]), int(g[slot, node]), int(p[slot, node])
        now, later = stays + goes > 0, stays + comes > 0
        stays, goes, comes = stays + firm * each, goes + leaving * each, comes + promised * each
        f[slot, node], g[slot, node], p[slot, node] = stays, goes, comes
        idle = int(now) - int(stays + goes > 0)
        after = int(later) - int(stays + comes > 0)
        return (idle, after - idle) if self.count[node] else (0, 0)

    def choose(
        self,
        klass: int,
        node: int,
        whole: tuple[int, int],
        order: DeviceOrder,
        later_only: bool = False,
        own: tuple[int, ...] = (),
    ) -> Choice | None:
        """The devices for one more pod of the class, or None where too few fit.

        `whole` are the whole GPUs that are idle now and that will be. Room that is there now goes
        first; with `later_only` it counts like room that others leave. Of equals, those in `own`.
        """
        if not later_only:
            slots = self._pick(klass, node, min(whole), order, own, self.leaving)
            if slots:
                return Choice(slots, False)
        slots = self._pick(klass, node, whole[1], order, own, None)
        return Choice(slots, True) if slots else None

    def _pick(
        self,
        klass: int,
        node: int,
        whole: int,
        order: DeviceOrder,
        own: tuple[int, ...],
        leaving: Ints | None,
    ) -> tuple[int, ...]:
        """Slots in device order; with `leaving`, only those with room while others still leave."""
        need, card = int(self.need(klass)[node]), self._cards[node]
        wanted = self.devices[klass]
        firm = self.firm[:, node].tolist()
        promised = self.promised[:, node].tolist()
        going: list[int] = self.leaving[:, node].tolist()
        found: list[tuple[float, bool, int, int]] = []
        fresh: list[tuple[bool, bool, int]] = []
        closed: list[bool] = self.closed[:, node].tolist()
        for slot, stays in enumerate(firm):
            if closed[slot] and slot not in own:
                continue
            after, here = stays + promised[slot], stays + going[slot]
            if after == 0:
                if leaving is None or here == 0:
                    fresh.append((slot not in own, here == 0, slot))
            elif after + need <= card + closed[slot] * _TRACE and (
                leaving is None or 0 < here <= card - need
            ):
                used = (after + going[slot]) / card
                found.append((-order(used, False), slot not in own, 0, slot))
        if need <= card:
            fresh.sort()
            new = -order(0.0, True)
            found += [(new, other, 1 + i, slot) for i, (other, _, slot) in enumerate(fresh[:whole])]
        if len(found) < wanted:
            return ()
        found.sort()
        return tuple(slot for _, _, _, slot in found[:wanted])

    def has_room(self, klass: int, node: int, slots: tuple[int, ...], whole: int) -> bool:
        """Whether pods of a class, that hold these slots together, fit there once others left.

        `whole` are the node's whole GPUs that will be idle then.
        """
        need, card = int(self.need(klass)[node]), self._cards[node]
        after = {slot: int(self.firm[slot, node] + self.promised[slot, node]) for slot in slots}
        card += _TRACE * bool(self.closed[list(slots), node].any())
        if sum(held == 0 for held in after.values()) > whole:
            return False
        return all(held + need * slots.count(slot) <= card for slot, held in after.items())

    def emptied_by(self, gone: Ints) -> Ints:
        """[N] devices that nobody would hold if `gone` [D, N] of their firm memory left."""
        left = self.firm + self.promised - gone
        return ((gone > 0) & (left <= 0)).sum(axis=0)

    def spare_parts(self, nodes: Bools) -> int:
        """How many whole devices the free parts of shared ones on `nodes` [N] would make."""
        after = (self.firm + self.promised)[:, nodes]
        left = np.where(after > 0, self.card[nodes] - after, 0) / self.card[nodes]
        left = np.where(self.closed[:, nodes], 0.0, left)
        return int(np.maximum(left, 0.0).sum() + _EPSILON)

    def overfull(self) -> Overfull | None:
        """A device above its card that was not so from the start."""
        now, later = self._ceiling
        bad = (self.firm + self.leaving > now) | (self.firm + self.promised > later)
        bad |= (self.firm < 0) | (self.leaving < 0) | (self.promised < 0)
        if not bad.any():
            return None
        slot, node = (int(i[0]) for i in np.nonzero(bad))
        return Overfull(node, slot)

"""Shared devices and shared claims behind the ledger's doors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..snapshot import GPU, USED, Bools, Codes, Ints, Nodes, Snapshot, TaskState
from .claims import ClaimBook
from .devices import Choice, DeviceBook
from .facts import GpuKind, Gpus, shared_kind
from .order import DeviceOrder, packed

if TYPE_CHECKING:
    from ..rules import At


class GpuBook:
    """What ledger columns do not hold: which device, which claim. Nodes in the ledger's order."""

    def __init__(self, snapshot: Snapshot, nodes: Nodes, origin: Codes, position: Codes) -> None:
        gpus = snapshot.gpus
        assert gpus is not None, "a book of GPUs needs their table"
        self.facts: Gpus = gpus
        self._snapshot, self._position = snapshot, position
        self.devices = DeviceBook(snapshot, nodes, origin)
        rows = len(snapshot.resources)
        self.claims = [ClaimBook(c, int(position[c.node]), rows) for c in gpus.claims]
        self.shares: list[bool] = [shared_kind(kind) for kind in gpus.kind.tolist()]
        """[C] classes whose pods hold device slots."""
        self.claims_of: list[tuple[ClaimBook, ...]] = [
            tuple(self.claims[c] for c in rules.claims) for rules in snapshot.classes.rules
        ]
        self.moves: list[bool] = [
            shares or bool(claims)
            for shares, claims in zip(self.shares, self.claims_of, strict=True)
        ]
        """[C] classes that the ledger has to tell of."""
        self.legacy: Bools = np.zeros(nodes.count, dtype=np.bool_)
        """[N] nodes with pods that hold MIG profiles by annotation."""
        stated = gpus.by_claim
        self.by_claim: Bools = (
            np.zeros(nodes.count, dtype=np.bool_) if stated is None else stated[origin]
        )
        """[N] nodes where a device that is shared takes `share_rows` too."""
        self.share_rows: list[int] = list(gpus.share_rows) if self.by_claim.any() else []

    def open(self, node_of: Codes, idle: Ints, releasing: Ints) -> None:
        """Books what pods hold at the start into `idle` and `releasing` [R, N]."""
        tasks = self._snapshot.tasks
        there = np.isin(tasks.state, [int(s) for s in USED]) & (node_of >= 0)
        legacy = there & (self.facts.kind[tasks.klass] == GpuKind.LEGACY_MIG)
        self.legacy[node_of[legacy]] = True
        self._open_devices(np.flatnonzero(there), node_of, idle, releasing)
        for klass, claims in enumerate(self.claims_of):
            if claims:
                rows = np.flatnonzero(there & (tasks.klass == klass))
                self._open_claims(klass, rows, node_of, idle, releasing)
        for claim in self.claims:
            claim.settle()
            if claim.node >= 0 and not (claim.firm or claim.leaving):
                idle[:, claim.node] -= claim.charge

    def _open_claims(
        self, klass: int, rows: NDArray[np.intp], node_of: Codes, idle: Ints, releasing: Ints
    ) -> None:
        state = self._snapshot.tasks.state
        for task in rows.tolist():
            gone = int(state[task] == TaskState.RELEASING)
            for claim in self.claims_of[klass]:
                self._move_claim(claim, int(node_of[task]), (1 - gone, gone, 0), idle, releasing)

    def _open_devices(
        self, there: NDArray[np.intp], node_of: Codes, idle: Ints, releasing: Ints
    ) -> None:
        devices, gpus, tasks = self.devices, self.facts, self._snapshot.tasks
        sharing = np.array(self.shares, dtype=np.bool_)
        users = there[sharing[tasks.klass[there]]]
        known = np.isin(gpus.hold_task, users)
        self._task: Codes = gpus.hold_task[known]
        self._slot: Codes = gpus.hold_slot[known]
        self._put(self._task, self._slot, node_of)
        guessed = [
            (task, slot)
            for task in _numbers(np.setdiff1d(users, self._task))
            for slot in self._guess(task, node_of)
        ]
        if guessed:
            more = np.array(guessed, dtype=np.int32).T
            self._task = np.concatenate((self._task, more[0]))
            self._slot = np.concatenate((self._slot, more[1]))
        for row, slot in gpus.closed:
            node = int(self._position[row])
            if any(self.shares):
                devices.close(slot, node)
            elif devices.count[node]:
                idle[GPU, node] -= 1
        order = np.lexsort((self._slot, self._task))
        self._task, self._slot = self._task[order], self._slot[order]
        now = (devices.firm + devices.leaving > 0).sum(axis=0)
        later = (devices.firm > 0).sum(axis=0)
        here = np.array(devices.count, dtype=np.int64) > 0
        idle[GPU] -= np.where(here, now, 0)
        releasing[GPU] += np.where(here, now - later, 0)
        for row in self.share_rows:
            idle[row] -= np.where(self.by_claim, now, 0)
            releasing[row] += np.where(self.by_claim, now - later, 0)
        devices.seal()

    def whole(self, room: Ints, at: At) -> Ints:
        """[n] devices of `room` [R, n], that of the nodes `at`, that sharing could be opened on."""
        gpus: Ints = room[GPU]
        if not self.share_rows:
            return gpus
        both = np.minimum(gpus, room[self.share_rows].min(axis=0))
        return np.where(self.by_claim[at], both, gpus)

    def whole_on(self, room: Ints, node: int) -> int:
        """The same of one node's `room` [R]."""
        gpus = int(room[GPU])
        if not self.share_rows or not self.by_claim[node]:
            return gpus
        return min(gpus, int(room[self.share_rows].min()))

    def _put(self, task: Codes, slot: Codes, node_of: Codes) -> None:
        """Counts parts that pods hold: `task` and `slot` of each."""
        tasks, devices = self._snapshot.tasks, self.devices
        gone, klass = tasks.state[task] == TaskState.RELEASING, tasks.klass[task]
        for k in np.flatnonzero(np.bincount(klass)).tolist():
            for amount, mine in ((devices.leaving, gone), (devices.firm, ~gone)):
                rows = mine & (klass == k)
                node = node_of[task[rows]]
                np.add.at(amount, (slot[rows], node), devices.need(k)[node])

    def _guess(self, task: int, node_of: Codes) -> tuple[int, ...]:
        """Devices for a pod that runs without saying on which: as if it came now, else any."""
        devices, klass = self.devices, int(self._snapshot.tasks.klass[task])
        node = int(node_of[task])
        load: Ints = (devices.firm + devices.leaving)[:, node]
        whole = devices.count[node] - int(np.count_nonzero(load))
        found = devices.choose(klass, node, (whole, whole), packed)
        slots = found.slots if found else ()
        if not slots:
            slots = tuple(_numbers(np.argsort(load, kind="stable")[: devices.devices[klass]]))
        self._put(np.full(len(slots), task, np.int32), np.array(slots, np.int32), node_of)
        return slots

    def slots_of(self, task: int) -> tuple[int, ...]:
        """Devices that a pod on a node holds a part of."""
        first, end = np.searchsorted(self._task, [task, task + 1]).tolist()
        return tuple(self._slot[first:end].tolist())

    def choose(
        self,
        klass: int,
        node: int,
        idle: Ints,
        releasing: Ints,
        order: DeviceOrder,
        later_only: bool,
        task: int = -1,
    ) -> Choice | None:
        """Devices for a pod, see DeviceBook; `idle` and `releasing` [R] are the node's room.

        `task` is the pod where it comes back to this node.
        """
        later = max(self.whole_on(idle + releasing, node), 0)
        own = self.slots_of(task) if task >= 0 else ()
        whole = min(max(self.whole_on(idle, node), 0), later), later
        return self.devices.choose(klass, node, whole, order, later_only, own)

    def move(
        self,
        klass: int,
        node: int,
        states: tuple[int, int, int],
        slots: tuple[int, ...],
        idle: Ints,
        releasing: Ints,
    ) -> None:
        """Moves pods of a class: by how many grow those that (stay, leave, wait for room)."""
        firm, leaving, promised = states
        if self.shares[klass]:
            pods = max(abs(firm), abs(leaving), abs(promised))
            if len(slots) != pods * self.devices.devices[klass]:
                raise ValueError(f"{pods} pods of class {klass} were booked on slots {slots}")
            one = firm // pods, leaving // pods, promised // pods
            for slot in slots:
                now, after = self.devices.move(klass, node, slot, *one)
                for row in (GPU, *self.share_rows) if self.by_claim[node] else (GPU,):
                    idle[row, node] += now
                    releasing[row, node] += after
        for claim in self.claims_of[klass]:
            self._move_claim(claim, node, (firm, leaving, promised), idle, releasing)

    def _move_claim(
        self,
        claim: ClaimBook,
        node: int,
        states: tuple[int, int, int],
        idle: Ints,
        releasing: Ints,
    ) -> None:
        now, after = claim.move(node, *states)
        if now:
            idle[:, node] += claim.charge * now
        if after:
            releasing[:, node] += claim.charge * after


def _numbers(rows: NDArray[np.intp]) -> list[int]:
    return rows.tolist()

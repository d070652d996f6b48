"""What is free now, who holds what, and how to take it back.

One mutable book per cycle: room on nodes, host ports, pods per domain, amounts per queue, pods per
subgroup. Every change goes through three doors (`book`, `charge`, `fill`), each writes what it did
to one log, and `roll_back` undoes the log to a mark: `trial` -> `keep` or `roll_back`, nested at
will. Nodes are held in name order, so that the first of equals is the one a tie goes to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from .gpu.book import GpuBook
from .gpu.devices import Choice
from .gpu.order import DeviceOrder
from .peers import Counter, PeerBook, PeerRules
from .shares.books import QueueBooks
from .shares.row import Amounts, QueueRow, queue_rows
from .shares.tree import path
from .snapshot import ALLOCATED, USED, Bools, Codes, Floats, Ints, Nodes, Snapshot, TaskState
from .topology.bonds import Bonds, bonds
from .zones.cells import Cells, Moved, cells

Mark: TypeAlias = int
#: (klass, node, idle, releasing, pods, device slots): copies by which each book moved.
_Booked: TypeAlias = "tuple[int, int, int, int, int, tuple[int, ...]]"
#: (queue, allocated, non-preemptible): the values before.
_Charged: TypeAlias = "tuple[QueueRow, Amounts, Amounts]"
#: (leaf, pods, of them firm)
_Filled: TypeAlias = "tuple[int, int, int, None]"
#: (klass, node, pods that leave, device slots)
_Released: TypeAlias = "tuple[int, int, int, tuple[int, ...], None, None, None]"
#: (klass, node, pods that stay, leave, wait), device slots
_Parted: TypeAlias = "tuple[tuple[int, int, int, int, int], tuple[int, ...]]"
#: (leaf, node, pods that came)
_Seated: TypeAlias = "tuple[int, int, int, None, None]"


class OvercommittedError(Exception):
    """An action booked room that is not there."""


class Ledger:
    """The books of one cycle. Node indices are positions in name order: see `origin`."""

    def __init__(self, snapshot: Snapshot, books: QueueBooks, share: Floats) -> None:
        self.snapshot = snapshot
        self.origin: Codes = np.argsort(snapshot.nodes.rank, kind="stable").astype(np.int32)
        """[N] row of the snapshot's nodes for each node here."""
        self.nodes: Nodes = _reordered(snapshot.nodes, self.origin)
        self.position: Codes = _positions(self.origin)
        """[N + 1] node here for each row of the snapshot's nodes; the last entry, for -1, is -1."""
        self.node_of: Codes = self.position[snapshot.tasks.node]
        """[T] node of each pod, here; -1 none."""
        tasks = snapshot.tasks
        self._open_room()
        self.gpus: GpuBook | None = self._open_gpus()
        """Shared devices and claims; None where nobody shares."""
        self._seal()
        self._open_ports()
        movable = [int(s) for s in (TaskState.PENDING, *ALLOCATED)]
        placed = tasks.klass[np.isin(tasks.state, movable) & (tasks.gang >= 0)]
        wanted = np.bincount(placed, minlength=snapshot.classes.count) > 0
        peers = PeerBook(snapshot, self.nodes, self.node_of, wanted)
        self.peers: list[PeerRules] = peers.rules
        self._moved: list[list[Counter]] = peers.moved
        self.queues: list[QueueRow] = queue_rows(snapshot.queues, books, share)
        self._paths: dict[int, tuple[int, ...]] = {}
        self._open_gangs()
        self.topology: Bonds | None = bonds(snapshot, self.origin, self.node_of)
        """Domains of nodes, and who must stay in one; None where nobody must."""
        self._log: list[
            _Booked | _Charged | _Filled | _Released | _Seated | _Parted | tuple[Moved]
        ] = []
        self.cells: Cells | None = cells(snapshot, self.origin, self.position, self._note_cell)
        """Zones inside nodes; None where no node tells of any."""
        self.changed: list[int] = []
        """Nodes whose books moved, undone moves included: caches read on from where they were."""
        self.state = 0
        """Grows with each `keep` that kept something: equal numbers mean equal books."""

    def _open_room(self) -> None:
        """[R, N] what is idle, and what pods that are being deleted are about to free."""
        state, request = self.snapshot.tasks.state, self.snapshot.classes.request
        used = self._held(np.isin(state, [int(s) for s in USED]))
        self.idle: Ints = np.ascontiguousarray(self.nodes.allocatable - used)
        self.releasing: Ints = self._held(state == TaskState.RELEASING)
        self.largest: list[int] = self.nodes.allocatable.max(axis=1, initial=0).tolist()
        """[R] the most that any node has of each resource."""
        self.charge_of: list[Amounts] = [
            (a, b, c) for a, b, c in self.snapshot.classes.queue_request.T.tolist()
        ]
        """[C] what a queue is charged for a pod that waits."""
        self._column: list[Ints] = [request[:, k].copy() for k in range(request.shape[1])]

    def _open_gpus(self) -> GpuBook | None:
        if self.snapshot.gpus is None:
            return None
        book = GpuBook(self.snapshot, self.nodes, self.origin, self.position)
        book.open(self.node_of, self.idle, self.releasing)
        return book

    def _seal(self) -> None:
        """What is kept for others, and what the ledger must never fall below from here on."""
        kept = self.snapshot.kept
        if kept is not None:
            free = np.maximum(self.idle + self.releasing, 0)
            self.releasing -= np.minimum(kept[:, self.origin], free)
        self.any_releasing = bool(self.releasing.any())
        self._floor = np.minimum(self.idle, 0), np.minimum(self.idle + self.releasing, 0)

    def _held(self, rows: Bools) -> Ints:
        """[R, N] requests of pods; a resource of which the node has none at all is not charged."""
        rows = rows & (self.node_of >= 0)
        node, klass = self.node_of[rows], self.snapshot.tasks.klass[rows]
        held = np.zeros_like(self.nodes.allocatable)
        for r, amount in enumerate(self.snapshot.classes.request):
            np.add.at(held[r], node, amount[klass])
        held[self.nodes.allocatable == 0] = 0
        return held

    def _open_ports(self) -> None:
        """[ports, N] pods that hold each host port."""
        rules = self.snapshot.classes.rules
        self.ports: Ints = np.zeros(
            (len(self.snapshot.port_conflicts), self.nodes.count), dtype=np.int64
        )
        if not self.ports.shape[0]:
            return
        there = np.isin(self.snapshot.tasks.state, [int(s) for s in USED]) & (self.node_of >= 0)
        node, klass = self.node_of[there], self.snapshot.tasks.klass[there]
        for k in np.flatnonzero(np.bincount(klass, minlength=len(rules))).tolist():
            for port in rules[k].ports:
                np.add.at(self.ports[port], node[klass == k], 1)

    def _open_gangs(self) -> None:
        """Pods per row of SubGroups: that hold a place, that hold it on free room, that wait."""
        tasks, rows = self.snapshot.tasks, self.snapshot.subgroups.gang.shape[0]
        ours = tasks.leaf >= 0
        held = ours & np.isin(tasks.state, [int(s) for s in ALLOCATED])
        waiting = ours & (tasks.state == TaskState.PENDING)
        self.held: list[int] = np.bincount(tasks.leaf[held], minlength=rows).tolist()
        self.firm: list[int] = list(self.held)
        self.waiting: list[int] = np.bincount(tasks.leaf[waiting], minlength=rows).tolist()

    def path(self, queue: int) -> tuple[int, ...]:
        """The queue and its ancestors, leaf first."""
        found = self._paths.get(queue)
        if found is None:
            found = self._paths[queue] = path(self.snapshot.queues.parent, queue)
        return found

    def colliding_ports(self, klass: int) -> list[int]:
        """Port codes that a pod of the class cannot share a node with."""
        conflicts = self.snapshot.port_conflicts
        mine = self.snapshot.classes.rules[klass].ports
        return sorted({code for port in mine for code in (port, *conflicts[port])})

    def choose(
        self, klass: int, node: int, order: DeviceOrder, later_only: bool = False, task: int = -1
    ) -> Choice | None:
        """Devices of a node for one pod of a class that shares; None where too few have room.

        `task` is the pod, which finds its own devices again where it comes back to its node.
        """
        if node < 0 or self.gpus is None:
            return None
        idle, releasing = self.idle[:, node], self.releasing[:, node]
        back = task if self.node_of[task] == node else -1
        return self.gpus.choose(klass, node, idle, releasing, order, later_only, back)

    def room_on(self, klass: int, node: int, slots: tuple[int, ...]) -> bool:
        """Whether pods of a class fit on these devices of a node once others have left."""
        assert self.gpus is not None, "only where devices are shared"
        whole = self.gpus.whole_on(self.idle[:, node] + self.releasing[:, node], node)
        return self.gpus.devices.has_room(klass, node, slots, whole)

    def book(
        self,
        klass: int,
        node: int,
        idle: int,
        releasing: int,
        pods: int,
        slots: tuple[int, ...] = (),
    ) -> None:
        """Moves copies of a class on a node: taken from idle, from releasing room, pods added.

        A placement is (n, 0, n), a nomination (0, n, n); (-n, n, 0) makes the first the second.
        Pods that share devices name their `slots`, all those of the n pods.
        """
        self._book(klass, node, idle, releasing, pods, slots)
        self._log.append((klass, node, idle, releasing, pods, slots))

    def _book(
        self,
        klass: int,
        node: int,
        idle: int,
        releasing: int,
        pods: int,
        slots: tuple[int, ...],
    ) -> None:
        request = self._column[klass]
        self._part(klass, node, (idle, 0, releasing), slots)
        if idle:
            self.idle[:, node] -= request if idle == 1 else request * idle
        if releasing:
            self.releasing[:, node] -= request * releasing
            self.any_releasing = True
        if pods:
            self._move(klass, node, pods)
        self.changed.append(node)

    def _part(
        self, klass: int, node: int, states: tuple[int, int, int], slots: tuple[int, ...]
    ) -> None:
        """Moves shared devices and claims: by how many pods grow those that (stay, leave, wait)."""
        if self.gpus is not None and self.gpus.moves[klass]:
            self.gpus.move(klass, node, states, slots, self.idle, self.releasing)
            self.any_releasing = True

    def stay(self, klass: int, node: int, slots: tuple[int, ...]) -> None:
        """A pod that was released, and then promised the same place again, never leaves."""
        self._part(klass, node, (1, -1, -1), slots)
        self._log.append(((klass, node, 1, -1, -1), slots))

    def vacate(self, klass: int, node: int, slots: tuple[int, ...]) -> None:
        """A pod that was given its place in this cycle, and released, was never there."""
        self.book(klass, node, -1, 1, 0, slots)
        self.stay(klass, node, slots)  # of what is booked, only that it left remains

    def release(self, klass: int, node: int, pods: int, slots: tuple[int, ...] = ()) -> None:
        """Pods that hold room on a node are to leave: it is about to be free.

        They count no longer for rules about other pods: who takes the room waits until they left.
        """
        self._release(klass, node, pods, slots)
        self._log.append((klass, node, pods, slots, None, None, None))

    def _release(self, klass: int, node: int, pods: int, slots: tuple[int, ...]) -> None:
        self._part(klass, node, (-pods, pods, 0), slots)
        charged = self.nodes.allocatable[:, node] > 0  # see _held
        self.releasing[:, node] += self._column[klass] * charged * pods
        self.any_releasing = True
        self._move(klass, node, -pods)
        self.changed.append(node)

    def _move(self, klass: int, node: int, pods: int) -> None:
        for counter in self._moved[klass]:
            counter.add(klass, node, pods)
        for port in self.snapshot.classes.rules[klass].ports:
            self.ports[port, node] += pods

    def charge(self, queue: int, amount: Amounts, firm: bool) -> None:
        """Books an amount to a leaf queue and its ancestors; `firm` = of a non-preemptible gang."""
        for row in self.path(queue):
            queue_row = self.queues[row]
            self._log.append((queue_row, queue_row.allocated, queue_row.non_preemptible))
            queue_row.charge(amount, firm)

    def fill(self, leaf: int, pods: int, firm: int) -> None:
        """Moves pods of a leaf from waiting to held; `firm` of them on room that is free now."""
        self._fill(leaf, pods, firm)
        self._log.append((leaf, pods, firm, None))

    def _fill(self, leaf: int, pods: int, firm: int) -> None:
        self.held[leaf] += pods
        self.waiting[leaf] -= pods
        self.firm[leaf] += firm

    def seat(self, leaf: int, node: int, pods: int) -> None:
        """Says where pods of a leaf are: what ties the rest of a gang to their domain."""
        if self.topology is not None and self.topology.seats.tracks(leaf):
            self.topology.seats.move(leaf, node, pods)
            self._log.append((leaf, node, pods, None, None))

    def _note_cell(self, moved: Moved) -> None:
        self._log.append((moved,))
        self.changed.append(moved.change.node)

    def left(self, leaf: int, pods: int) -> None:
        """Evicted pods of a leaf wait for nothing: they are gone for good."""
        self.waiting[leaf] -= pods

    def verify(self) -> None:
        """Raises OvercommittedError if a node was promised more than it has: never by input."""
        now, later = self._floor
        bad = (self.idle < now) | (self.idle + self.releasing < later)
        if bad.any():
            row, node = (int(i[0]) for i in np.nonzero(bad))
            name = self.snapshot.resources[row]
            raise OvercommittedError(
                f"node row {int(self.origin[node])} was promised more {name} than it has"
            )
        full = self.gpus.devices.overfull() if self.gpus else None
        if full is not None:
            raise OvercommittedError(
                f"device {full.slot} of node row {int(self.origin[full.node])} was promised beyond "
                "its memory"
            )

    def trial(self) -> Mark:
        """Opens a trial: hand the mark to `roll_back`, or keep what follows."""
        return len(self._log)

    def keep(self) -> None:
        """Makes all that is in the log final."""
        if self._log:
            self.state += 1
            self._log.clear()

    def roll_back(self, mark: Mark) -> None:
        """Undoes everything since the mark, exactly."""
        log = self._log
        while len(log) > mark:
            entry = log.pop()
            if len(entry) == 6:
                klass, node, idle, releasing, pods, slots = entry
                self._book(klass, node, -idle, -releasing, -pods, slots)
            elif len(entry) == 2:
                (klass, node, firm, leaving, promised), slots = entry
                self._part(klass, node, (-firm, -leaving, -promised), slots)
            elif len(entry) == 3:
                row, row.allocated, row.non_preemptible = entry
            elif len(entry) == 7:
                klass, node, pods, slots, *_ = entry
                self._release(klass, node, -pods, slots)
            elif len(entry) == 1:
                entry[0].undo()
                self.changed.append(entry[0].change.node)
            elif len(entry) == 5:
                assert self.topology is not None, "only constrained gangs are seated"
                self.topology.seats.move(entry[0], entry[1], -entry[2])
            else:
                leaf, pods, firm, _ = entry
                self._fill(leaf, -pods, -firm)


def _positions(origin: Codes) -> Codes:
    here = np.full(origin.shape[0] + 1, -1, dtype=np.int32)
    here[origin] = np.arange(origin.shape[0], dtype=np.int32)
    return here


def _reordered(nodes: Nodes, order: Codes) -> Nodes:
    """The same nodes in another order."""
    if bool((np.diff(order) == 1).all()):
        return nodes
    return replace(
        nodes,
        allocatable=nodes.allocatable[:, order],
        rank=nodes.rank[order],
        ready=nodes.ready[order],
        cordoned=nodes.cordoned[order],
        label_value=nodes.label_value[:, order],
        label_number=nodes.label_number[:, order],
        taints=nodes.taints[:, order],
        soft_taints=nodes.soft_taints[:, order],
        domain=nodes.domain[:, order],
    )

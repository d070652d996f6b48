"""What would happen if these pods left: everybody is placed again, in the normal order.

The victims and the gang that asks (the beneficiary) are placed by the order of queues and gangs, as
if all of it waited for room. A victim that goes first by that order takes its place back first; one
that comes back to its own node never had to leave. Once the beneficiary has its place, victims go
back where they were if they can; before that their own node wins among equals only, so that they
can pack. The order holds all waiting gangs: those that are neither victim nor beneficiary are
passed over, but stand for their queue while they head it, so that nothing is taken for a gang when
the room would go to another. Source: KAI 0.17, solver.

The cost follows the pods that move, not the nodes or the gangs of the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..actions.attempt import Attempt
from ..capacity import over_capacity
from ..filters.resources import copies
from ..ledger import Mark
from ..pending import Run
from ..placing import Shortfall
from ..plan import QueueCause
from ..reserve import QUEUE_GPU
from ..session import Placed
from ..shares.row import Amounts
from .books import VictimBooks
from .line import line
from .steps import Step


@dataclass(slots=True)
class Outcome:
    """A simulation in which the beneficiary found its place. The ledger stands as it says."""

    steps: list[Step]
    mark: Mark  # of the ledger, before anything moved
    placed: list[Placed] = field(default_factory=list[Placed])  # of the beneficiary
    moved: dict[int, Placed] = field(default_factory=dict[int, Placed])
    """Victims by position that found another node."""
    joined: list[Placed] = field(default_factory=list[Placed])  # waiting pods of victims
    gone: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """Per leaf, positions of victims that found none, ascending."""

    def away(self, step: Step) -> list[int]:
        """The pods of a step that are not on their node any more."""
        return [
            position
            for position, leaf in zip(step.positions, step.leaves, strict=True)
            if position in self.moved or position in self.gone[leaf]
        ]

    def lost(self, step: Step) -> list[int]:
        """The pods of a step that found no place."""
        return [
            position
            for position, leaf in zip(step.positions, step.leaves, strict=True)
            if position in self.gone[leaf]
        ]


class Simulation:
    """Runs thought experiments for one beneficiary."""

    def __init__(self, books: VictimBooks, gang: int, attempt: Attempt) -> None:
        self._books, self._ledger, self._gang, self._attempt = books, books.ledger, gang, attempt
        self._path = books.ledger.path(books.queue[gang])
        self._missing = 0  # GPUs of other queues' reserves, before anything moved

    def run(self, steps: Sequence[Step]) -> Outcome | None:
        """Takes the pods of `steps` away and places all again; None, and all undone, if in vain."""
        ledger = self._ledger
        out = Outcome(list(steps), ledger.trial())
        reserves = self._books.session.reserves
        self._missing = reserves.missing(self._path) if reserves else 0
        needs = self._take_away(out)
        order = line(self._books, self._gang, needs)
        left = set(needs)
        while left and (gang := order.pop()) >= 0:
            if gang not in left:
                continue
            left.discard(gang)
            if gang != self._gang:
                self._place_victim(gang, needs[gang], out)
            elif not self._place_beneficiary(out):
                ledger.roll_back(out.mark)
                return None
        self.bring_back(out)
        if self._torn(out) or self._eats_reserve():
            ledger.roll_back(out.mark)
            return None
        return out

    def _torn(self, out: Outcome) -> bool:
        """Whether a victim that moved lies in more than the one domain that it requires."""
        bonds = self._ledger.topology
        if bonds is None or not out.moved:
            return False
        return any(bonds.torn(gang) for gang in {one.gang for one in out.moved.values()})

    def _take_away(self, out: Outcome) -> dict[int, Attempt]:
        """Evicts, and answers what each gang concerned asks for then."""
        ledger, books = self._ledger, self._books
        for step in out.steps:
            for first, pods, klass, origin in books.held.runs(step.positions):
                self._release(first, pods, klass, int(ledger.position[origin]))
            amount = step.amount
            back = (-amount[0], -amount[1], -amount[2])
            ledger.charge(books.queue[step.gang], back, not books.preemptible[step.gang])
            for position, leaf in zip(step.positions, step.leaves, strict=True):
                out.gone.setdefault(leaf, []).append(position)
                ledger.seat(leaf, books.held.node_of(position), -1)
                ledger.fill(leaf, -1, -books.held.firm(position))
        for leaf, positions in out.gone.items():
            place = {p: i for i, p in enumerate(books.held.of(leaf))}
            positions.sort(key=place.__getitem__)
        needs = {step.gang: self._return(step.gang, out) for step in out.steps}
        needs[self._gang] = self._attempt
        return needs

    def _release(self, first: int, pods: int, klass: int, node: int) -> None:
        cells = self._ledger.cells
        if cells is not None:
            for position in range(first, first + pods):
                cells.give_up(self._books.held.task(position))
        for count, slots, waits in self._books.held.kinds(first, pods):
            if waits:
                self._ledger.book(klass, node, 0, -count, -count, slots)
            else:
                self._ledger.release(klass, node, count, slots)

    def _return(self, gang: int, out: Outcome) -> Attempt:
        """What a victim asks for: pods that were taken away first, then waiting ones."""
        books, runs = self._books, list[tuple[int, Run]]()
        for leaf, pods in books.attempts.picks(gang):
            gone = out.gone.get(leaf, [])
            runs += [(leaf, run) for run in books.held.runs(gone[:pods])]
            if pods > len(gone):
                waiting = self._ledger.waiting[leaf] - len(gone)
                more = books.session.pending.next(leaf, waiting, pods - len(gone))
                runs += [(leaf, run) for run in more]
        return books.attempts.attempt(tuple(runs))

    def _place_beneficiary(self, out: Outcome) -> bool:
        if self._over_limit(self._gang, self._attempt.gate):
            return False
        placed = self._place_beside()
        if isinstance(placed, Shortfall | QueueCause):
            return False
        out.placed = placed
        return True

    def _place_beside(self) -> list[Placed] | Shortfall | QueueCause:
        """The beneficiary's pods; what is kept for other queues is left as it was before."""
        gang, attempt, reserves = self._gang, self._attempt, self._books.session.reserves

        def place() -> list[Placed] | Shortfall:
            return self._books.placer.place(gang, attempt, later_only=True)

        gpus = attempt.gate[QUEUE_GPU]
        if not reserves or gpus <= 0:
            return place()
        return reserves.beside(self._path, gpus, place, self._missing)

    def _eats_reserve(self) -> bool:
        """Whether others end with fewer places in reserve than before."""
        reserves = self._books.session.reserves
        return bool(reserves) and reserves.missing(self._path) > self._missing

    def _place_victim(self, gang: int, attempt: Attempt, out: Outcome) -> None:
        if not attempt.runs or self._over_limit(gang, attempt.gate):
            return
        bonus = None if out.placed else 0.0
        placed = self._books.placer.place(gang, attempt, later_only=True, bonus=bonus)
        if isinstance(placed, Shortfall):
            return
        held = self._books.held
        for one in placed:
            if one.first < held.base:
                out.joined.append(one)
                continue
            for position in range(one.first, one.first + one.pods):
                out.gone[one.leaf].remove(position)
                elsewhere = held.node_of(position) != one.node
                cells = self._ledger.cells
                elsewhere |= cells is not None and cells.moved(held.task(position))
                if elsewhere or set(held.slots_of(position)) != set(one.slots):
                    out.moved[position] = one._replace(first=position, pods=1)
                elif held.firm(position):
                    self._ledger.fill(one.leaf, 0, 1)

    def _over_limit(self, gang: int, need: Amounts) -> bool:
        books, ledger = self._books, self._ledger
        path = ledger.path(books.queue[gang])
        return over_capacity(ledger.queues, path, need, books.preemptible[gang]) is not None

    # ---- who need not have left

    def bring_back(self, out: Outcome) -> None:
        """Victims that fit where they were stay there; those that would go last are asked first."""
        core_out: set[int] = set()
        for step in reversed(out.steps):
            if step.gang in core_out:
                continue
            away = out.away(step)
            if away and not self._stays(step, away, out) and step.core:
                core_out.add(step.gang)

    def _stays(self, step: Step, away: list[int], out: Outcome) -> bool:
        """Puts pods of a victim back on their nodes if those still have the room."""
        books, ledger = self._books, self._ledger
        mark = ledger.trial()
        lost = [position for position in away if position not in out.moved]
        amount = books.amount(lost)
        if lost and self._over_limit(step.gang, amount):
            return False
        leaf_of = dict(zip(step.positions, step.leaves, strict=True))
        for position in away:
            moved = out.moved.get(position)
            if moved is not None:
                ledger.book(moved.klass, moved.node, 0, -1, -1, moved.slots)
                ledger.seat(moved.leaf, moved.node, -1)
                if ledger.cells is not None:
                    ledger.cells.drop(books.held.task(position))
            ledger.seat(leaf_of[position], books.held.node_of(position), 1)
        for first, pods, klass, origin in books.held.runs(away):
            node = int(ledger.position[origin])
            if not self._fits_again(first, pods, klass, node) or not self._zones_again(first, pods):
                ledger.roll_back(mark)
                return False
            ledger.book(klass, node, 0, pods, pods, books.held.slots(first, pods))
        if lost:
            ledger.charge(books.queue[step.gang], amount, not books.preemptible[step.gang])
        for position in away:
            firm = books.held.firm(position)
            if out.moved.pop(position, None) is None:
                ledger.fill(leaf_of[position], 1, firm)
                out.gone[leaf_of[position]].remove(position)
            else:
                ledger.fill(leaf_of[position], 0, firm)
        return True

    def _fits_again(self, first: int, pods: int, klass: int, node: int) -> bool:
        """Whether equal pods have room where they were, on the devices that they shared there."""
        books, ledger = self._books, self._ledger
        fit = books.session.fits.of(klass)
        room = int(fit.later[node])
        if not fit.suits[node]:  # a pod may stay on a node that takes no new ones
            free = ledger.idle[:, node : node + 1] + ledger.releasing[:, node : node + 1]
            room = int(copies(free, fit.request, fit.asked)[0])
        if room < pods:
            return False
        slots = books.held.slots(first, pods)
        return not slots or ledger.room_on(klass, node, slots)

    def _zones_again(self, first: int, pods: int) -> bool:
        """Gives pods the zones back that they held, if nobody else has them."""
        cells, held = self._ledger.cells, self._books.held
        if cells is None:
            return True
        return all(cells.come_back(held.task(p)) for p in range(first, first + pods))

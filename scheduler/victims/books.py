"""Who could be evicted and who waits, per leaf queue in order, kept up to date over a cycle."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..gang_state import ABOVE_MINIMUM, AT_MINIMUM, BELOW_MINIMUM, ready
from ..orders.job_iteration import Job
from ..orders.job_order import JobKey
from ..orders.subgroup_order import GangTree, gang_tree
from ..orders.user_order import seniority
from ..placing import Placer
from ..session import Placed, Session
from ..shares.row import NOTHING, Amounts
from ..snapshot import QUEUE_RESOURCES, Bools, Snapshot
from .held import Held
from .lost_work import ages_by_lost_work
from .reclaimable import plus
from .steps import Step, pods_to_evict

if TYPE_CHECKING:
    from .simulation import Outcome

#: A job order turned round: who goes first of those that are evicted.
VictimKey = tuple[float, ...]
Victim = tuple[VictimKey, int]


#: Pods per leaf that are gone in a thought experiment, the last ones first.
Taken = dict[int, int]
_NONE: Taken = {}


class VictimBooks:
    """The state that all searches of a cycle share.

    What this cycle gave may be taken back as long as the plan is not made: nobody notices.
    """

    def __init__(self, session: Session) -> None:
        self.session, self.ledger, self.attempts = session, session.ledger, session.attempts
        snapshot = session.snapshot
        gangs = snapshot.gangs
        self.held = Held(session.ledger, session.pending, session.policy.task_order)
        self.placer = Placer(session)
        self.queue: list[int] = gangs.queue.tolist()
        self.preemptible: list[bool] = gangs.preemptible.tolist()
        self.last_resort: list[bool] = _stated(gangs.last_resort, gangs.count)
        self.priority: list[int] = gangs.priority.tolist()
        self.root: list[int] = gangs.root.tolist()
        self.size: list[int] = np.bincount(snapshot.subgroups.gang, minlength=gangs.count).tolist()
        self.minimum: list[int] = snapshot.subgroups.minimum.tolist()
        self.is_leaf: list[bool] = snapshot.subgroups.leaf.tolist()
        self.charge: list[Amounts] = [
            (a, b, c) for a, b, c in snapshot.classes.queue_request.T.tolist()
        ]
        self._created: list[float] = seniority(gangs, session.policy.user_fairness).tolist()
        self._rank: list[int] = gangs.rank.tolist()
        self._age, self._name = ages_by_lost_work(snapshot, np.array(self._created))
        self._trees: dict[int, GangTree] = {}
        self.disrupted = [0] * len(snapshot.disruptions)
        """Pods of each disruption budget that this cycle evicts."""
        self.charged_as_requested: list[bool] = _charged_as_requested(snapshot)
        """Per queue resource, whether all classes are charged what they ask of a node."""
        self.deeds: dict[int, Outcome] = {}
        """Per gang that others leave for in this cycle, what was done for it."""
        self._pieces: dict[tuple[int, int], set[float]] = {}
        self.victims: dict[int, list[Victim]] = {}
        """Per leaf queue, gangs that could be evicted, who goes first in front."""
        self.waiting: dict[int, list[Job]] = {}
        """Per leaf queue, gangs that wait and are ready, who is tried first in front."""
        self._list_victims()
        self._list_waiting()

    def _list_victims(self) -> None:
        snapshot, held = self.session.snapshot, self.held
        held.add(self.session.placed, self.ledger.origin)
        holds = np.bincount(
            snapshot.subgroups.gang, self.ledger.held, minlength=snapshot.gangs.count
        )
        could: Bools = (holds > 0) & snapshot.gangs.preemptible & (snapshot.gangs.queue >= 0)
        for gang in np.flatnonzero(could).tolist():
            if any(map(held.count, self.leaves(gang))):
                self.victims.setdefault(self.queue[gang], []).append((self.victim_key(gang), gang))
        for victims in self.victims.values():
            victims.sort()

    def _list_waiting(self) -> None:
        session, snapshot = self.session, self.session.snapshot
        could = ready(snapshot.subgroups, snapshot.gangs.root, snapshot.tasks)
        waits = np.bincount(
            snapshot.subgroups.gang, self.ledger.waiting, minlength=snapshot.gangs.count
        )
        could &= session.admitted & (waits > 0)
        for gang in np.flatnonzero(could).tolist():
            if self.attempts.next(gang).runs:
                jobs = self.waiting.setdefault(self.queue[gang], [])
                jobs.append((self.job_key(gang), gang))
        for jobs in self.waiting.values():
            jobs.sort()

    def job_key(self, gang: int) -> JobKey:
        """The gang's place among those of its queue that are tried."""
        elastic = self.attempts.elastic(gang)
        return self._key(gang, elastic, self._created[gang], self._rank[gang])

    def key_now(self, gang: int) -> JobKey:
        """The gang's place among those that are tried, by what it holds in the ledger now."""
        held, state = self.ledger.held, AT_MINIMUM
        for leaf in self.leaves(gang):
            if held[leaf] < self.minimum[leaf]:
                state = BELOW_MINIMUM
                break
            if held[leaf] > self.minimum[leaf]:
                state = ABOVE_MINIMUM
        return self._key(gang, state, self._created[gang], self._rank[gang])

    def victim_key(self, gang: int, taken: Taken = _NONE) -> VictimKey:
        """Where the gang, without `taken`, stands among victims: the job order turned round."""
        elastic = self.elastic(gang, taken)
        key = self._key(gang, elastic, self._age[gang], self._name[gang])
        return tuple(-part for part in key)

    def _key(self, gang: int, elastic: int, created_s: float, rank: int) -> JobKey:
        order = self.session.policy.job_order
        return order(self.priority[gang], elastic, created_s, rank)

    def elastic(self, gang: int, taken: Taken) -> int:
        """The elastic state of what is left, see gang_state."""
        state = AT_MINIMUM
        for leaf in self.leaves(gang):
            left = self.held.count(leaf) - taken.get(leaf, 0)
            if left < self.minimum[leaf]:
                return BELOW_MINIMUM
            if left > self.minimum[leaf]:
                state = ABOVE_MINIMUM
        return state

    def leaves(self, gang: int) -> list[int]:
        """Rows of SubGroups that hold the gang's pods."""
        root = self.root[gang]
        if self.size[gang] == 2:
            return [root + 1]
        return [row for row in range(root, root + self.size[gang]) if self.is_leaf[row]]

    def charge_of(self, position: int) -> Amounts:
        """What a queue is charged for a held pod: GPU memory by the card that it is on."""
        klass = self.held.klass_of(position)
        price = self.placer.by_memory.get(klass)
        return price.amount(self.held.node_of(position)) if price else self.charge[klass]

    def amount(self, positions: Iterable[int]) -> Amounts:
        """What queues are charged for held pods."""
        amount = NOTHING
        for position in positions:
            amount = plus(amount, self.charge_of(position))
        return amount

    def holds(self, gang: int) -> Amounts:
        """What the gang's queue is charged for its pods that could be evicted."""
        return self.amount(p for leaf in self.leaves(gang) for p in self.held.of(leaf))

    def budgets_of(self, positions: Iterable[int]) -> dict[int, int]:
        """How many of these pods each disruption budget counts."""
        budget = self.session.snapshot.tasks.budget
        found: dict[int, int] = {}
        for position in positions:
            row = -1 if budget is None else int(budget[self.held.task(position)])
            if row >= 0 and self.held.given(position) is None:
                found[row] = found.get(row, 0) + 1
        return found

    def pieces(self, leaf: int, resource: int) -> set[float]:
        """Amounts of a resource that pieces of a queue's gangs can have: pods, or cores as one.

        Found once a cycle: later it may hold amounts that are gone, never lack one that is there.
        """
        known = self._pieces.get((leaf, resource))
        if known is None:
            known = self._pieces[leaf, resource] = set()
            for _, gang in self.victims.get(leaf, []):
                known |= self._pieces_of(gang, resource)
        return known

    def _pieces_of(self, gang: int, resource: int) -> set[float]:
        taken: Taken = {}
        found: set[float] = set()
        while (step := self.step(gang, taken)) is not None:
            found.add(step.amount[resource])
            for leaf in step.leaves:
                taken[leaf] = taken.get(leaf, 0) + 1
            if step.core:
                break
        return found

    def step(self, gang: int, taken: Taken = _NONE) -> Step | None:
        """The next pods of the gang to go, those of `taken` being gone already."""
        root, held = self.root[gang], self.held
        picks, core = self._picks(gang, taken)
        positions: list[int] = []
        leaves: list[int] = []
        for local, pods in picks:
            leaf = root + local
            end = held.count(leaf) - taken.get(leaf, 0)
            positions += held.of(leaf)[end - pods : end]
            leaves += [leaf] * pods
        if not positions:
            return None
        return Step(gang, tuple(positions), tuple(leaves), core, self.amount(positions))

    def _picks(self, gang: int, taken: Taken) -> tuple[list[tuple[int, int]], bool]:
        root, size, held = self.root[gang], self.size[gang], self.held
        if size == 2 and self.minimum[root] == 1:
            left = held.count(root + 1) - taken.get(root + 1, 0)
            over = left - self.minimum[root + 1]
            return [(1, 1 if over > 0 else left)], over <= 0
        tree = self._trees.get(gang)
        if tree is None:
            subgroups = self.session.snapshot.subgroups
            tree = self._trees[gang] = gang_tree(subgroups, root, size)
        left_of = [
            held.count(row) - taken.get(row, 0) if self.is_leaf[row] else 0
            for row in range(root, root + size)
        ]
        return pods_to_evict(tree, left_of)

    def lost(self, gang: int, away: dict[int, set[int]], moved: list[Placed]) -> None:
        """Pods of a victim, per leaf, left; those of `moved` have another place, which this cycle
        may take back. The ledger knows already."""
        victims = self.victims[self.queue[gang]]
        del victims[bisect_left(victims, (self.victim_key(gang), gang))]
        self.drop_waiting(gang)
        for leaf, positions in away.items():
            for budget, pods in self.budgets_of(positions).items():
                self.disrupted[budget] += pods
            self.held.drop(leaf, positions)
        self.held.add(moved, self.ledger.origin)
        self.attempts.forget(gang)
        if any(map(self.held.count, self.leaves(gang))):
            insort(victims, (self.victim_key(gang), gang))

    def returned(self, gang: int, back: set[int]) -> None:
        """Pods of a victim stay where they were after all: what they had meanwhile is void."""
        self._drop_victim(gang)
        for leaf in self.leaves(gang):
            void = {
                position
                for position in self.held.of(leaf)
                if (given := self.held.given(position)) is not None and given.first in back
            }
            self.held.drop(leaf, void)
        self.attempts.forget(gang)
        if any(map(self.held.count, self.leaves(gang))):
            insort(self.victims[self.queue[gang]], (self.victim_key(gang), gang))

    def _drop_victim(self, gang: int) -> None:
        victims = self.victims.setdefault(self.queue[gang], [])
        entry = (self.victim_key(gang), gang)
        at = bisect_left(victims, entry)
        if at < len(victims) and victims[at] == entry:
            del victims[at]

    def served(self, gang: int, placed: list[Placed]) -> None:
        """A gang that waited was given these places. The ledger knows already."""
        self.drop_waiting(gang)
        self.attempts.moved(gang)
        self._drop_victim(gang)
        self.held.add(placed, self.ledger.origin)
        if self.preemptible[gang]:
            insort(self.victims[self.queue[gang]], (self.victim_key(gang), gang))
        if self.attempts.next(gang).runs:
            insort(self.waiting.setdefault(self.queue[gang], []), (self.job_key(gang), gang))

    def drop_waiting(self, gang: int) -> None:
        """Takes a gang out of those that wait, before its state moves."""
        jobs = self.waiting.get(self.queue[gang])
        if not jobs:
            return
        entry = (self.job_key(gang), gang)
        at = bisect_left(jobs, entry)
        if at < len(jobs) and jobs[at] == entry:
            del jobs[at]


def books(session: Session) -> VictimBooks:
    """The books of this cycle, made when first asked for."""
    if session.victims is None:
        session.victims = VictimBooks(session)
    return session.victims


def _stated(column: Bools | None, count: int) -> list[bool]:
    return [False] * count if column is None else column.tolist()


def _charged_as_requested(snapshot: Snapshot) -> list[bool]:
    classes = snapshot.classes
    same = classes.request[:QUEUE_RESOURCES] == classes.queue_request
    return np.all(same, axis=1).tolist()

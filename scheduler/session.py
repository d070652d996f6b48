"""The state of one cycle: what actions read, change and leave behind for the Plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .actions.attempt import Attempts
from .fit import Fits
from .ledger import Ledger
from .pending import Pending
from .plan import DomainLack, QueueCause
from .reason import Reason
from .reserve import Reserves
from .snapshot import Bools, Codes, Floats, Snapshot

if TYPE_CHECKING:
    from .policy import Policy
    from .victims.books import VictimBooks


class Placed(NamedTuple):
    """Pods of one class that went to one node in one step."""

    gang: int
    leaf: int  # row of SubGroups
    first: int  # position in Session.order
    pods: int
    klass: int
    node: int  # of the ledger
    later: bool  # nominated: waits for releasing room
    slots: tuple[int, ...] = ()  # devices of the node that it shares, those of all its pods


class Miss(NamedTuple):
    """An attempt that failed, as the action saw it; `diagnosis` makes a Wait of it."""

    gang: int
    wanted: int  # pods
    placeable: int = 0  # pods found a place before it failed
    klass: int = -1  # the class that found none
    asked: tuple[tuple[int, int], ...] = ()  # (klass, pods) of the whole attempt
    cause: QueueCause | None = None
    reason: Reason = Reason.NONE
    domain: DomainLack | None = None  # the nearest one, where topology keeps it waiting


class Evicted(NamedTuple):
    """Pods that must leave, and why."""

    tasks: tuple[int, ...]  # rows of the snapshot
    reason: Reason
    beneficiary: int  # the gang that gets the room; -1 none


@dataclass(slots=True)
class Session:
    """One cycle in the making."""

    snapshot: Snapshot
    policy: Policy
    ledger: Ledger
    fits: Fits
    pending: Pending
    attempts: Attempts
    total: Floats  # [3] what the top-level queues divide
    refusal: Codes  # [G] see admittance.queue_refusal
    placed: list[Placed] = field(default_factory=list[Placed])
    misses: dict[int, Miss] = field(default_factory=dict[int, Miss])
    """The last failed attempt per gang; taken out when a later one succeeds."""
    reserves: Reserves = field(init=False)
    """Places that queues keep for their own."""
    evicted: list[Evicted] = field(default_factory=list[Evicted])
    beneficiaries: set[int] = field(default_factory=set[int])
    """Gangs for which others leave."""
    holders: set[int] = field(default_factory=set[int])
    """Gangs for which others left in an earlier cycle, and whose room is held."""
    movers: set[int] = field(default_factory=set[int])
    """Gangs with pods that come back to a place kept for them after a move."""
    kept_free: dict[int, list[tuple[int, int, int]]] = field(
        default_factory=dict[int, list[tuple[int, int, int]]]
    )
    """(klass, node, pods) of what is booked for holders that were not placed."""
    delayed: dict[int, float] = field(default_factory=dict[int, float])
    """Gangs that could not be placed and must not evict others yet: for how many seconds."""
    only_delayed: set[int] = field(default_factory=set[int])
    """Those of them that would have others evicted now, were it not for the delay."""
    passed_over: set[int] = field(default_factory=set[int])
    """Gangs that nobody tried: the policy tries only so many of a queue."""
    last_resort: bool = False
    """Whether gangs of last resort may be victims: nobody else was of use to those who wait."""
    victims: VictimBooks | None = None
    """Who could be evicted; made by the first action that asks."""

    def __post_init__(self) -> None:
        self.reserves = Reserves(self.ledger)

    @property
    def order(self) -> Codes:
        """Rows of the snapshot's tasks that `Placed.first` counts in: pending ones, then held."""
        return self.pending.order if self.victims is None else self.victims.held.order

    def task(self, position: int) -> int:
        """The row of the snapshot's tasks at a position of `order`."""
        if self.victims is None:
            return int(self.pending.order[position])
        return self.victims.held.task(position)

    @property
    def admitted(self) -> Bools:
        """[G] gangs whose queue lets them compete."""
        return self.refusal == Reason.NONE

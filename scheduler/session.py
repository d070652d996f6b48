"""The state of one cycle: what actions read, change and leave behind for the Plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .fit import Fits
from .ledger import Ledger
from .pending import Pending
from .plan import QueueCause
from .reason import Reason
from .snapshot import Bools, Codes, Floats, Snapshot

if TYPE_CHECKING:
    from .policy import Policy


class Placed(NamedTuple):
    """Pods of one class that went to one node in one step."""

    gang: int
    leaf: int  # row of SubGroups
    first: int  # position in Pending.order
    pods: int
    klass: int
    node: int  # of the ledger
    later: bool  # nominated: waits for releasing room


class Miss(NamedTuple):
    """An attempt that failed, as the action saw it; `diagnosis` makes a Wait of it."""

    gang: int
    wanted: int  # pods
    placeable: int = 0  # pods found a place before it failed
    klass: int = -1  # the class that found none
    asked: tuple[tuple[int, int], ...] = ()  # (klass, pods) of the whole attempt
    cause: QueueCause | None = None
    reason: Reason = Reason.NONE


@dataclass(slots=True)
class Session:
    """One cycle in the making."""

    snapshot: Snapshot
    policy: Policy
    ledger: Ledger
    fits: Fits
    pending: Pending
    total: Floats  # [3] what the top-level queues divide
    refusal: Codes  # [G] see admittance.queue_refusal
    placed: list[Placed] = field(default_factory=list[Placed])
    misses: dict[int, Miss] = field(default_factory=dict[int, Miss])
    """The last failed attempt per gang; taken out when a later one succeeds."""

    @property
    def admitted(self) -> Bools:
        """[G] gangs whose queue lets them compete."""
        return self.refusal == Reason.NONE

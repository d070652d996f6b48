"""What `decide` answers: binds, evictions, nominations and, for every gang that waits, why."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .reason import Reason
from .snapshot import Codes, Floats, Ints

_EMPTY = np.empty(0, dtype=np.int32)
_NOTHING = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class QueueCause:
    """The queue-level cause of a wait, with the figures of the sentence shown to the user."""

    reason: Reason
    queue: int  # the queue (any level) that refuses
    resource: int  # row of the queue arrays
    requested: float
    used: float
    bound: float  # the limit or quota that would be passed
    size: int = 1  # of a reserve: GPUs that each of its places has on one node


@dataclass(frozen=True, slots=True)
class DomainLack:
    """The domain that comes nearest to holding what must stay together, and what it lacks."""

    topology: int
    level: int  # of the topology, 0 = the widest; -1 = the whole topology
    domain: int  # code at that level; -1 = there is none, or the whole topology
    room: int  # pods it has room for
    wanted: int  # pods that must stay together
    missing: tuple[tuple[int, int], ...] = ()  # (resource row, amount) it lacks
    tied: bool = False  # only domains where members run already, or nodes set aside, will do


@dataclass(frozen=True, slots=True)
class Wait:
    """Why one gang is not running (or did not grow) after this cycle.

    `counts` maps a reason to the number of nodes it ruled out, for the class that failed.
    `nearest` is the node that came closest and `missing` what it lacks there.
    """

    gang: int
    reason: Reason  # the decisive one
    klass: int = -1  # the class that failed to fit; -1 = none was tried
    counts: tuple[tuple[Reason, int], ...] = ()
    nearest: int = -1  # node
    missing: tuple[tuple[int, int], ...] = ()  # (resource row, amount) lacking on `nearest`
    placeable: int = 0  # pods of the attempt that could be placed
    wanted: int = 0  # pods the attempt needed
    asked: tuple[tuple[int, float], ...] = ()  # (resource row, amount) the attempt needed in all
    free: tuple[tuple[int, float], ...] = ()  # ... and what nodes that suit the class have free
    queue_cause: QueueCause | None = None
    behind: tuple[int, ...] = ()  # gangs that went before it on what it asks for (at most a few)
    detail: str = ""  # the object's name for reasons that name one
    domain: DomainLack | None = None  # for TOPOLOGY_UNSATISFIED
    blocks_start: bool = True  # False: the gang runs, only its growth waits
    delay_s: float = 0.0  # for so long it must not have others evicted (its preemption delay)


@dataclass(frozen=True, slots=True)
class Plan:
    """Arrays of equal length per kind; row i of `bind_task` goes to row i of `bind_node`.

    Rows are grouped by gang in the order decided. The world must apply a gang's binds as a whole.
    """

    bind_task: Codes = field(default_factory=lambda: _EMPTY)
    bind_node: Codes = field(default_factory=lambda: _EMPTY)
    nominate_task: Codes = field(default_factory=lambda: _EMPTY)  # waits for releasing room there
    nominate_node: Codes = field(default_factory=lambda: _EMPTY)
    grant_task: Codes = field(default_factory=lambda: _EMPTY)  # a pod of the above that gets ...
    grant_slot: Codes = field(default_factory=lambda: _EMPTY)  # ... a part of this device, of ...
    grant_mib: Ints = field(default_factory=lambda: _NOTHING)  # ... so much; a row per device
    zone_task: Codes = field(default_factory=lambda: _EMPTY)  # a pod of the above that takes ...
    zone_kind: Codes = field(default_factory=lambda: _EMPTY)  # ... of NUMA cells (0), links (1) ...
    zone_index: Codes = field(default_factory=lambda: _EMPTY)  # ... of this zone of its node ...
    zone_resource: Codes = field(default_factory=lambda: _EMPTY)  # ... of this resource row ...
    zone_amount: Ints = field(default_factory=lambda: _NOTHING)  # ... so much, as is predicted
    evict_task: Codes = field(default_factory=lambda: _EMPTY)
    evict_reason: Codes = field(default_factory=lambda: _EMPTY)
    evict_for: Codes = field(default_factory=lambda: _EMPTY)  # beneficiary gang; -1 none
    waits: tuple[Wait, ...] = ()
    fair_share: Floats = field(default_factory=lambda: np.zeros((3, 0)))  # [3, Q]
    allocated: Floats = field(default_factory=lambda: np.zeros((3, 0)))  # [3, Q] after the plan
    requested: Floats = field(default_factory=lambda: np.zeros((3, 0)))  # [3, Q]

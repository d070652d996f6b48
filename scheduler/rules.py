"""The shapes of a placement rule: a filter says whether, a score says how gladly.

A rule is a plain function over node columns. Beside it stands what it reads, so that its answer is
kept until that changes: facts of the node never change in a cycle, room changes on the node that
took a pod, peers change anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from .reason import Reason
from .snapshot import Bools, Codes, Floats

if TYPE_CHECKING:
    from .fit import Fit
    from .ledger import Ledger

#: The node columns a rule is asked for: all of them, or some by index.
At: TypeAlias = "slice | Codes"
ALL = slice(None)


class Reads(IntEnum):
    """What a rule's answer depends on, besides the class."""

    FACTS = 0  # labels, taints, allocatable: the same for the whole cycle
    ROOM = 1  # what that node has free or holds
    PEERS = 2  # pods on any node


@dataclass(frozen=True, slots=True)
class Filter:
    """`allows(ledger, klass, at)` -> [len(at)] nodes that suit; None: no such rule for the class.

    None must not depend on the state of the cycle. More free room must never turn True into False.
    """

    allows: Callable[[Ledger, int, At], Bools | None]
    reason: Reason
    reads: Reads = Reads.FACTS
    single: Callable[[Ledger, int], bool] | None = None
    """Whether a node takes at most one pod of the class (a host port, say)."""


@dataclass(frozen=True, slots=True)
class Score:
    """`rate(fit, at)` -> [len(at)] finite, times `weight`; None: no concern of the class.

    `packs` promises that taking a pod of a class never lowers the node's own value for that class
    while another copy fits: then equal pods fill the best node without looking again.
    """

    rate: Callable[[Fit, At], Floats | None]
    weight: float
    reads: Reads = Reads.FACTS
    packs: bool = False

"""Nodes that the queue of a gang may use, and nodes that are kept for others.

A queue may be tied to node pools and GPU types; a node may be kept for one type of workload, such
as interactive work that must always find room. Both are selectors that the encoder adds to the
classes of that queue's pods, so that one class still means one set of nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import Bools, Selector
from .labels import within

if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..rules import At


def queue_may_use(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Nodes of the pools and GPU types that the queue is tied to."""
    return _inside(ledger, ledger.snapshot.classes.rules[klass].queue_nodes, at)


def not_reserved(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Nodes that are kept for nobody, or for such pods."""
    return _inside(ledger, ledger.snapshot.classes.rules[klass].reserved, at)


def _inside(ledger: Ledger, selectors: tuple[Selector, ...], at: At) -> Bools | None:
    if not selectors:
        return None
    suits = np.ones(ledger.nodes.count, dtype=np.bool_)
    for selector in selectors:
        suits &= within(ledger.nodes, selector)
    return suits[at]

"""Required pod affinity and anti-affinity.

Source: Kubernetes InterPodAffinity. Affinity: each term's domain must hold a pod that matches all
affinity terms of the class; if no such pod exists anywhere and the class matches its own terms, the
first pod may go to any node that has the labels. Anti-affinity works both ways: a pod that is
already there refuses newcomers that match its terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import Bools

if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..rules import At


def near(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Nodes next to the pods that the class must be near."""
    rules = ledger.peers[klass]
    if not rules.near:
        return None
    labelled = np.ones(ledger.nodes.count, dtype=np.bool_)
    together = labelled.copy()
    for counter in rules.near:
        labelled &= counter.domain >= 0
        together &= counter.counts[counter.domain] > 0
    if rules.near_itself and not any(counter.counts.any() for counter in rules.near):
        return labelled[at]
    return (labelled & together)[at]


def apart(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Nodes away from the pods that the class avoids, and from those that avoid it."""
    rules = ledger.peers[klass]
    if not rules.apart:
        return None
    clash = np.zeros(ledger.nodes.count, dtype=np.bool_)
    for counter in rules.apart:
        clash |= counter.counts[counter.domain] > 0
    return ~clash[at]


def avoids_itself(ledger: Ledger, klass: int) -> bool:
    """Two pods of the class never share a domain, hence never a node."""
    return ledger.peers[klass].avoids_itself

"""Pods must fit zones inside the node: NUMA cells as the kubelet aligns them, linked GPUs.

Source: KAI 0.17, plugin numa; the rule for link groups, and classes that ask for a policy
themselves, are ours.
"""

from __future__ import annotations

from ..ledger import Ledger
from ..rules import At
from ..snapshot import Bools


def numa_aligned(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Whether the kubelet could align a pod of the class, now or once others have left."""
    book = ledger.cells and ledger.cells.numa
    return book.allows(klass, at) if book and book.concerned[klass] else None


def links_joined(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Whether the pod's GPUs could be of one link group, where the class asks for that."""
    book = ledger.cells and ledger.cells.links
    return book.allows(klass, at) if book and book.concerned[klass] else None

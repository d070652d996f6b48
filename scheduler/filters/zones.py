"""Pods must fit zones inside the node: NUMA cells as the kubelet aligns them, linked GPUs, devices
of one claim that must agree in an attribute.

Sources: KAI 0.17, plugin numa; Kubernetes resource.k8s.io, matchAttribute. The rule for link
groups, and classes that ask for a policy themselves, are ours.
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


def devices_matched(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Whether devices could be claimed that agree in all attributes in which they must."""
    suits = None
    for book in ledger.cells.matches if ledger.cells else ():
        if book.concerned[klass]:
            here = book.allows(klass, at)
            suits = here if suits is None else suits & here
    return suits

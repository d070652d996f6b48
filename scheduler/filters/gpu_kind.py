"""Which kind of GPU request a node takes.

Source: KAI 0.17, resource-type predicates. MIG profiles go to partitioned nodes only; a node with
strategy single takes whole GPUs, one with strategy mixed takes profiles; profiles stay off nodes
with pods that hold them by annotation, and such pods are never placed. Devices that resource slices
offer are shared only where a claim can keep one (KAI: nowhere). GPU memory needs a node that says
how much a card has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..gpu.facts import GpuKind, MigMode, shared_kind
from ..snapshot import Bools

if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..rules import At


def partitioned_alike(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Nodes whose cards are partitioned as the class asks, or not at all."""
    book = ledger.gpus
    if book is None:
        return None
    kind, mode = int(book.facts.kind[klass]), book.facts.mig[ledger.origin]
    if kind == GpuKind.LEGACY_MIG:
        return np.zeros(ledger.nodes.count, dtype=np.bool_)[at]
    if kind == GpuKind.MIG:
        return ((mode != MigMode.NONE) & (mode != MigMode.SINGLE) & ~book.legacy)[at]
    if shared_kind(kind):
        return ((mode != MigMode.SINGLE) & (mode != MigMode.MIXED))[at]
    if kind in (GpuKind.WHOLE, GpuKind.DRA):
        return (mode != MigMode.MIXED)[at]
    return None


def shareable(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Nodes whose devices a fraction or an amount of memory may be taken of."""
    book = ledger.gpus
    if book is None or not book.shares[klass]:
        return None
    return (~book.facts.dra[ledger.origin] | book.by_claim)[at]


def memory_known(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Nodes that say how much memory a card has, for requests by memory."""
    book = ledger.gpus
    if book is None or book.facts.kind[klass] != GpuKind.MEMORY:
        return None
    return book.devices.known[at]


def large_enough(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Nodes whose cards have the memory that is asked of one."""
    book = ledger.gpus
    if book is None or book.facts.kind[klass] != GpuKind.MEMORY:
        return None
    devices = book.devices
    return (devices.need(klass) <= devices.card)[at]

"""What queues pay for a request by GPU memory: it depends on the card, so on the node.

Source: KAI 0.17, capacity check per node: a node is out for a pod whose queue would pass its limit,
or its quota for what cannot be preempted, with the amount that the pod counts as there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..shares.row import Amounts
from ..snapshot import GPU, UNLIMITED, Bools, Floats
from .facts import GpuKind
from .prices import on_nodes

if TYPE_CHECKING:
    from ..ledger import Ledger


@dataclass(frozen=True, slots=True)
class MemoryPrice:
    """One class: what a pod of it counts as on each node."""

    plain: Amounts  # its CPU and memory, the same everywhere
    gpus: Floats  # [N]

    def amount(self, node: int) -> Amounts:
        """What the queue is charged for a pod there."""
        return self.plain[0], self.plain[1], float(self.gpus[node])

    def within(self, ledger: Ledger, queue: int, firm: bool, nodes: Bools | None) -> Bools | None:
        """The part of `nodes` where the queue and all above it may pay for one more pod."""
        for row in (ledger.queues[q] for q in ledger.path(queue)):
            bounds = [(row.limit[GPU], row.allocated[GPU])]
            bounds += [(row.quota[GPU], row.non_preemptible[GPU])] if firm else []
            for bound, used in bounds:
                if bound != UNLIMITED:
                    pays = used + self.gpus <= bound
                    nodes = pays if nodes is None else nodes & pays
        return nodes


def memory_prices(ledger: Ledger) -> dict[int, MemoryPrice]:
    """The prices of all classes that ask by memory."""
    book = ledger.gpus
    if book is None:
        return {}
    classes = np.flatnonzero(book.facts.kind == GpuKind.MEMORY).tolist()
    card = book.devices.card
    return {k: MemoryPrice(ledger.charge_of[k], on_nodes(book.facts, k, card)) for k in classes}

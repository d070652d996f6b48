"""A node must be ready and must not be cordoned.

Source: KAI 0.17, node condition predicate: a cordoned node is out even for pods that tolerate the
unschedulable taint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..snapshot import Bools

if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..rules import At


def ready(ledger: Ledger, klass: int, at: At) -> Bools:
    """Nodes that report Ready and no pressure."""
    return ledger.nodes.ready[at]


def uncordoned(ledger: Ledger, klass: int, at: At) -> Bools:
    """Nodes that are open for new pods."""
    return ~ledger.nodes.cordoned[at]

"""A class that no node can ever take: a claim or a configuration it names does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import Bools

if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..rules import At


def unblocked(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """No node at all while the class is blocked; its `blocked` field says why."""
    if not ledger.snapshot.classes.rules[klass].blocked:
        return None
    return np.zeros(ledger.nodes.ready[at].shape, dtype=np.bool_)

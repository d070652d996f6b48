"""A host port is held by one pod of a node.

Source: Kubernetes NodePorts. Which ports collide (same number and protocol, overlapping address) is
for the encoder to say, in `Snapshot.port_conflicts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import Bools

if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..rules import At


def ports_free(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Nodes where no pod holds a port that collides with one of the class."""
    rows = ledger.colliding_ports(klass)
    if not rows:
        return None
    return np.max(ledger.ports[np.array(rows)][:, at], axis=0) == 0


def holds_port(ledger: Ledger, klass: int) -> bool:
    """Two pods of a class with a host port never share a node."""
    return bool(ledger.snapshot.classes.rules[klass].ports)

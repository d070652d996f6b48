"""A node's hard taints (NoSchedule, NoExecute) must be tolerated.

Source: Kubernetes TaintToleration. Tolerations are matched to taints by the encoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import Bools, ClassRules, Nodes

if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..rules import At


def tolerated(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Nodes all of whose hard taints the class tolerates."""
    suits = bearable(ledger.nodes, ledger.snapshot.classes.rules[klass])
    return None if suits is None else suits[at]


def bearable(nodes: Nodes, rules: ClassRules) -> Bools | None:
    """[N] nodes without a hard taint that is not tolerated; None where no node has a taint."""
    if nodes.taints.shape[0] == 0:
        return None
    hurts = np.ones(nodes.taints.shape[0], dtype=np.bool_)
    hurts[[row for row in rules.tolerates if row < hurts.shape[0]]] = False
    return np.logical_not(np.any(nodes.taints[hurts], axis=0))

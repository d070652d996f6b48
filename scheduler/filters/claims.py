"""A resource claim that pods share ties them to the node of its devices.

Source: Kubernetes DynamicResources, KAI 0.17 dynamicresources. Whether the devices are there is a
matter of room; whether a pod may name the claim at all, of the encoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import Bools

if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..rules import At


def claims_reachable(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Nodes where every claim of the class is, or may still be allocated."""
    claims = ledger.gpus.claims_of[klass] if ledger.gpus else ()
    if not claims:
        return None
    suits = np.ones(ledger.nodes.count, dtype=np.bool_)
    for claim in claims:
        if claim.node >= 0:
            suits &= np.arange(suits.shape[0]) == claim.node
    return suits[at]


def claims_open(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """All nodes, while every claim of the class may take one more pod."""
    claims = ledger.gpus.claims_of[klass] if ledger.gpus else ()
    if not claims:
        return None
    room = all(claim.room() > 0 for claim in claims)
    return np.full(ledger.nodes.count, room, dtype=np.bool_)[at]

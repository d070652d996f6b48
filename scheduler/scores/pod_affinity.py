"""Preferred pod affinity and anti-affinity, both ways.

Source: Kubernetes InterPodAffinity scoring, raw: the sum of term weights over the matching pods in
the node's domain, and of the weights with which pods already there want or avoid this one. KAI 0.17
does not normalise it, so it may be any number and outweighs packing at one pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import Floats

if TYPE_CHECKING:
    from ..fit import Fit
    from ..rules import At


def liked_company(fit: Fit, at: At) -> Floats | None:
    """The raw sum of weights per node."""
    likes = fit.ledger.peers[fit.klass].likes
    if not likes:
        return None
    total = np.zeros(fit.ledger.nodes.count, dtype=np.float64)
    for weight, counter in likes:
        total += weight * counter.counts[counter.domain]
    return total[at]

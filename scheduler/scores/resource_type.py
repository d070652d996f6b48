"""Pods without GPUs go to nodes without GPUs.

Source: KAI 0.17, resourcetype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import GPU, Floats

if TYPE_CHECKING:
    from ..fit import Fit
    from ..rules import At


def cpu_node_for_cpu_pod(fit: Fit, at: At) -> Floats | None:
    """1 on a node without GPUs, for a pod that asks for none."""
    if fit.asks_gpu:
        return None
    return (fit.ledger.nodes.allocatable[GPU, at] == 0).astype(np.float64)

"""Fill nodes one after the other (binpack) or use the emptiest first (spread).

Source: KAI 0.17, nodeplacement. A pod that asks for GPUs is placed by free GPUs, any other by free
CPU; free = idle + releasing. KAI scales bin-packing between the fullest and the emptiest node of
the moment; here the scale is the largest node, which gives the same order (all other sources differ
by 10 or more, this one by at most 9) and need not be recomputed after each pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import CPU, GPU, Floats

if TYPE_CHECKING:
    from ..fit import Fit
    from ..rules import At


def gpu_binpack(fit: Fit, at: At) -> Floats | None:
    """Fewer free GPUs first, for pods that ask for GPUs."""
    return _fullness(fit, at, GPU) if fit.asks_gpu else None


def gpu_spread(fit: Fit, at: At) -> Floats | None:
    """The larger free part of the node's GPUs first, for pods that ask for GPUs."""
    return _emptiness(fit, at, GPU) if fit.asks_gpu else None


def cpu_binpack(fit: Fit, at: At) -> Floats | None:
    """Less free CPU first, for pods without GPUs."""
    return None if fit.asks_gpu else _fullness(fit, at, CPU)


def cpu_spread(fit: Fit, at: At) -> Floats | None:
    """The larger free part of the node's CPU first, for pods without GPUs."""
    return None if fit.asks_gpu else _emptiness(fit, at, CPU)


def _fullness(fit: Fit, at: At, row: int) -> Floats:
    """1 = nothing free, 0 = as much free as the largest node has, or the node has none at all."""
    scale = max(fit.ledger.largest[row], 1)
    return np.where(fit.ledger.nodes.allocatable[row, at] > 0, 1.0 - fit.free(row, at) / scale, 0.0)


def _emptiness(fit: Fit, at: At, row: int) -> Floats:
    """Free / allocatable, 0 where the node has none."""
    whole = fit.ledger.nodes.allocatable[row, at]
    return np.where(whole > 0, fit.free(row, at) / np.maximum(whole, 1), 0.0)

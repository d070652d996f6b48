"""A node that has room now beats one whose room is still being freed.

Source: KAI 0.17, nodeavailability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import Floats

if TYPE_CHECKING:
    from ..fit import Fit
    from ..rules import At


def fits_now(fit: Fit, at: At) -> Floats:
    """1 where a copy fits into idle room."""
    return (fit.now[at] > 0).astype(np.float64)

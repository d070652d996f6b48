"""A node with a shared device that has room comes before one where a whole GPU must be opened.

Source: KAI 0.17, gpusharingorder. KAI also sends pods without any GPU there; here only pods that
share are asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import Floats

if TYPE_CHECKING:
    from ..fit import Fit
    from ..rules import At


def hosts_share(fit: Fit, at: At) -> Floats | None:
    """1 where a device that others share can take the request."""
    if fit.shared is None:
        return None
    return fit.shared.hosts(at).astype(np.float64)

"""What a snapshot says about topology: which domain of which level each node belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: No constraint is stated.
NONE = -1
#: One is stated, by a name that does not exist: the gang waits and is told so.
UNKNOWN = -2


@dataclass(frozen=True, slots=True)
class Topologies:
    """All Topology objects, one after the other; each has its levels, the widest first.

    A domain is the whole path from the widest level down: racks of one name in two zones are two
    domains. Codes count the domains of one level in the order of their path's name. A node that
    lacks the label of any level of an object belongs to none of that object's domains.
    """

    first: NDArray[np.int32]  # [P + 1] row of each object's widest level; the last entry is L
    domain: NDArray[np.int32]  # [L, N] code of the node's domain; -1 = it does not belong

    @property
    def count(self) -> int:
        """P, the number of Topology objects."""
        return self.first.shape[0] - 1

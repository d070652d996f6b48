"""Resource claims that several pods share: allocated with the first, charged once.

Source: KAI 0.17 and Kubernetes resource.k8s.io: an allocated claim ties its pods to the node of its
devices; at most 256 pods may hold it; it is free again when the last of them has gone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .facts import Claim


class ClaimBook:
    """One claim in a cycle. Counts pods that stay, that leave and that wait for room."""

    __slots__ = ("_fixed", "_known", "charge", "claim", "firm", "leaving", "moves", "node", "owed")

    def __init__(self, claim: Claim, node: int, rows: int) -> None:
        self.claim = claim
        self.node = node  # of the ledger; -1 = not allocated
        self.charge: NDArray[np.int64] = np.zeros(rows, dtype=np.int64)
        for row, amount in claim.charge:
            self.charge[row] += amount
        self.firm = self.leaving = 0
        self.owed = 0  # pods that wait for room which others leave
        self.moves = 0  # grows with each change
        self._fixed = False
        self._known = 0

    def settle(self) -> None:
        """To be called once all pods that hold it are counted."""
        #: Allocated without a pod of ours on it: nothing that we move frees it.
        self._fixed = self.node >= 0 and self.firm + self.leaving == 0
        self._known = self.firm + self.leaving

    @property
    def taken_now(self) -> bool:
        """Whether its devices are in use."""
        return self._fixed or self.firm + self.leaving > 0

    @property
    def taken_later(self) -> bool:
        """Whether its devices will be in use once those that leave have gone."""
        return self._fixed or self.firm + self.owed > 0

    def move(self, node: int, firm: int, leaving: int, owed: int) -> tuple[int, int]:
        """Moves pods on and off; answers by how many charges (idle, releasing) room grows."""
        now, later = self.taken_now, self.taken_later
        self.firm += firm
        self.leaving += leaving
        self.owed += owed
        self.moves += 1
        if self.firm + self.leaving + self.owed > 0:
            self.node = node
        elif not self._fixed:
            self.node = -1
        idle = int(now) - int(self.taken_now)
        return idle, int(later) - int(self.taken_later) - idle

    def room(self) -> int:
        """Pods that may still come."""
        come = self.firm + self.leaving + self.owed - self._known
        return max(self.claim.free - come, 0)

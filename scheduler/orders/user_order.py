"""Among equals of one queue: gangs of users who had less lately go first, then the older.

KAI knows no users. What a user had is a part of the cluster over the same time and with the same
decay as the usage of queues; gangs without a user count as one user without a name.
"""

from __future__ import annotations

import numpy as np

from ..snapshot import Floats, Gangs


def seniority(gangs: Gangs, by_user: bool) -> Floats:
    """[G] what stands for the creation time in the order of jobs and, turned round, of victims."""
    usage = gangs.user_usage
    if not by_user or usage is None or not usage.any():
        return gangs.created_s
    order = np.lexsort((gangs.rank, gangs.created_s, usage))
    place = np.empty(gangs.count)
    place[order] = np.arange(gangs.count)
    return place

"""Which gang of a leaf queue goes first.

Source: KAI 0.17, job order: the priority and elastic plugins, then creation, then name.
"""

from __future__ import annotations

JobKey = tuple[int, int, float, int]


def job_key(priority: int, elastic: int, created_s: float, rank: int) -> JobKey:
    """Sorts gangs of one queue; smaller goes first.

    Higher priority, then the elastic state (see gang_state: below its minimum, at it, above it),
    then the older, then the name. `elastic` moves while a plan is made, the rest does not.
    """
    return (-priority, elastic, created_s, rank)

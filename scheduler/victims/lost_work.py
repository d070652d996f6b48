"""Among victims that are equal but for their age: who loses least.

The work that an eviction throws away is what was done since the last checkpoint, or since the start
of a gang that has not saved any. Only gangs that report checkpoints are weighed, and only against
each other: they share out the places in the order that they hold by age.
"""

from __future__ import annotations

import numpy as np

from ..snapshot import Floats, Snapshot, stated


def ages_by_lost_work(
    snapshot: Snapshot, seniority: Floats | None = None
) -> tuple[list[float], list[int]]:
    """Per gang, the creation time and name rank by which victims are ordered: later ones go first.

    `seniority` [G] stands for the creation times where the policy orders by more than age.
    They are the gang's own, but for gangs of one queue and priority that report checkpoints: the
    one that loses least of them stands where the newest would.
    """
    gangs = snapshot.gangs
    first = gangs.created_s if seniority is None else seniority
    created, rank = first.copy(), gangs.rank.copy()
    if gangs.checkpoint_s is not None:
        saved = np.fmax(gangs.checkpoint_s, gangs.last_start_s)
        saved = np.where(np.isnan(gangs.checkpoint_s), np.nan, saved)
        lost = snapshot.now_s - stated(saved, gangs.count, np.inf)
        groups: dict[tuple[int, int], list[int]] = {}
        for gang in np.flatnonzero(~np.isnan(gangs.checkpoint_s)).tolist():
            groups.setdefault((int(gangs.queue[gang]), int(gangs.priority[gang])), []).append(gang)
        for members in groups.values():
            by_age = sorted(members, key=lambda g: (-created[g], -rank[g]))
            places = [(first[g], gangs.rank[g]) for g in by_age]
            by_loss = sorted(by_age, key=lambda g: lost[g])  # stable: equals stay by age
            for gang, place in zip(by_loss, places, strict=True):
                created[gang], rank[gang] = place
    return created.tolist(), rank.tolist()

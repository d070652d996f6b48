"""One gang that the core stumbles over must not stop all others: it is found and set aside.

`decide` is pure, so it may be asked again and again on parts of the same picture: with only half
of the waiting gangs allowed to start, then half of that half. A gang alone with which it still
fails is an offender. The number of tries is bounded; what cannot be pinned on a gang is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from kai_ray.controllers.cycle import only
from kai_ray.scheduler import Plan, Snapshot
from kai_ray.scheduler.snapshot import Bools, TaskState
from kai_ray.scheduler.validate import SnapshotError

log = logging.getLogger(__name__)

#: Gangs set aside in one cycle, and tries in all.
MOST_OFFENDERS, MOST_TRIES = 8, 200
Decide = Callable[[Snapshot], Plan]


def decide_without_offenders(decide: Decide, snapshot: Snapshot) -> tuple[Plan, dict[int, str]]:
    """The Plan, and the gangs that were left out of it with what was raised."""
    try:
        return decide(snapshot), {}
    except SnapshotError:
        raise  # the arrays are at fault and not a gang
    except Exception as error:
        log.exception("a decision failed: looking for the gang that it failed on")
        return _Search(decide, snapshot, error).run()


class _Search:
    def __init__(self, decide: Decide, snapshot: Snapshot, error: Exception) -> None:
        self._decide, self._snapshot, self._error = decide, snapshot, error
        self._tries = 0

    def run(self) -> tuple[Plan, dict[int, str]]:
        tasks = self._snapshot.tasks
        waits = (tasks.gang >= 0) & (tasks.state == TaskState.PENDING)
        gangs: list[int] = np.unique(tasks.gang[waits]).tolist()
        offenders: dict[int, str] = {}
        while len(offenders) < MOST_OFFENDERS:
            left = [g for g in gangs if g not in offenders]
            plan = self._try(left)
            if plan is not None:
                return plan, offenders
            offender = self._find(left)
            if offender is None:
                break
            offenders[offender] = f"{type(self._error).__name__}: {self._error}"
        raise self._error

    def _find(self, gangs: list[int]) -> int | None:
        """One gang on which it fails alone; None if it takes several, or none at all."""
        if self._try([]) is None:
            return None  # it fails whoever waits
        while len(gangs) > 1:
            half = gangs[: len(gangs) // 2]
            if self._try(half) is None:
                gangs = half
            elif self._try(gangs[len(half) :]) is None:
                gangs = gangs[len(half) :]
            else:
                return gangs[0]  # only together: the first to come is the one that waits
        return gangs[0] if gangs else None

    def _try(self, gangs: list[int]) -> Plan | None:
        self._tries += 1
        if self._tries > MOST_TRIES:
            raise self._error
        chosen: Bools = np.zeros(self._snapshot.gangs.count, dtype=np.bool_)
        chosen[gangs] = True
        try:
            return self._decide(only(self._snapshot, chosen))
        except Exception as error:
            self._error = error
            return None

"""A second round of evicting, in which gangs of last resort may be victims too.

What: a gang whose minimum cannot go without ending its attempt (its operator knows no suspending)
keeps it as long as moving, reclaiming or preempting any others serves; what still waits then is
looked at once more, in the same order of actions, with those gangs at the end of the victims'.
Why: a suspended gang comes back as it was, an ended attempt costs its owner a retry.
Limits: what each action allows; surplus above the minimum is taken in the first round already.
Cost: nothing where no gang of last resort runs or nobody waits; else each evicting action again.

Source: ours; KAI knows no such difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..session import Session
from ..snapshot import ALLOCATED
from .consolidation import consolidation
from .preempt import preempt
from .reclaim import reclaim

_EVICTING = (consolidation, reclaim, preempt)


def rounds(session: Session) -> Iterator[Callable[[Session], None]]:
    """The policy's actions in their order; after the last that evicts, all of those again."""
    actions = session.policy.actions
    evicting = [action for action in actions if action in _EVICTING]
    for action in actions:
        yield action
        if evicting and action is evicting[-1] and _somebody_holds(session):
            session.last_resort = True
            yield from evicting


def _somebody_holds(session: Session) -> bool:
    """Whether a gang of last resort runs that may be evicted at all."""
    gangs, tasks = session.snapshot.gangs, session.snapshot.tasks
    if gangs.last_resort is None:
        return False
    last = gangs.last_resort & gangs.preemptible
    mine = tasks.gang[(tasks.gang >= 0) & np.isin(tasks.state, [int(s) for s in ALLOCATED])]
    return bool(last[mine].any())

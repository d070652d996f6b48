"""What an eviction may take of a gang, whatever the action."""

from __future__ import annotations

from .books import VictimBooks
from .order import Spare


def spare_of(books: VictimBooks, gang: int, protected: bool) -> Spare:
    """Nothing where preemption or a hold forbids it, the surplus where the minimum is safe.

    The minimum is safe while `protected` (by a minimum runtime), always in a semi-preemptible gang,
    and in one of last resort until all others have been tried.
    """
    if not books.preemptible[gang] or gang in books.session.holders:
        return Spare.NOTHING
    core_safe = books.session.snapshot.gangs.core_safe
    if protected or (core_safe is not None and bool(core_safe[gang])):
        return Spare.SURPLUS
    if books.last_resort[gang] and not books.session.last_resort:
        return Spare.SURPLUS
    return Spare.ALL

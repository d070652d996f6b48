"""The line in which victims and beneficiary are placed in a simulation.

It holds all waiting gangs: those that are neither stand for their queue while they head it. Only
those that matter are put in: of waiting gangs that ask for the same, one after the other, the
first; of queues, those that bear on the order among the ones concerned.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from ..actions.attempt import Attempt
from ..orders.job_iteration import Job, JobIteration
from ..shares.row import Amounts
from .books import VictimBooks


def line(books: VictimBooks, gang: int, needs: dict[int, Attempt]) -> JobIteration:
    """The order in which the gangs of `needs`, with what each asks for, are placed.

    `gang` is the beneficiary; the others are its victims, their pods being gone.
    """
    standing = books.session.policy.queue_order
    jobs = _jobs(books, gang, needs)
    a, b, c = books.session.total.tolist()

    def need(other: int) -> Amounts:
        mine = needs.get(other)
        return books.attempts.need(other) if mine is None else mine.need

    return JobIteration(books.ledger.queues, (a, b, c), jobs, need, standing)


def _jobs(books: VictimBooks, beneficiary: int, needs: dict[int, Attempt]) -> dict[int, list[Job]]:
    """Per leaf queue, the gangs concerned and those that stand for the queue before them."""
    mine: dict[int, list[Job]] = {}
    for gang in needs:
        key = books.job_key(gang) if gang == beneficiary else books.key_now(gang)
        mine.setdefault(books.queue[gang], []).append((key, gang))
    found: dict[int, list[Job]] = {}
    for leaf in _leaves_beside(books, list(mine)):
        waiting = books.waiting.get(leaf, [])
        own = mine.get(leaf)
        if own is None:
            found[leaf] = _heads(books, waiting, needs)
            continue
        last = max(own)
        ahead = waiting[: bisect_left(waiting, last)]
        found[leaf] = sorted(own + _heads(books, ahead, needs, own)) if ahead else sorted(own)
    return {leaf: jobs for leaf, jobs in found.items() if jobs}


def _heads(
    books: VictimBooks, waiting: list[Job], needs: dict[int, Attempt], own: Sequence[Job] = ()
) -> list[Job]:
    """Of each run of gangs that ask for the same, the first: the others change nothing.

    A gang concerned in the middle of a run parts it in two.
    """
    heads: list[Job] = []
    before: Amounts | None = None
    parts = sorted(own)
    for job in waiting:
        if job[1] in needs:
            continue
        if parts and parts[0] < job:
            before = None
            while parts and parts[0] < job:
                parts.pop(0)
        need = books.attempts.need(job[1])
        if need != before:
            heads.append(job)
            before = need
    return heads


def _leaves_beside(books: VictimBooks, leaves: list[int]) -> set[int]:
    """Leaf queues whose waiting gangs bear on the order among `leaves`.

    Those below the same child of the lowest queue that all of `leaves` have in common.
    """
    ledger = books.ledger
    paths = [ledger.path(leaf)[::-1] for leaf in leaves]
    depth = 0
    while all(len(path) > depth + 1 and path[depth] == paths[0][depth] for path in paths):
        depth += 1
    branches = {path[depth] for path in paths}
    beside = set(leaves)
    for leaf in books.waiting:
        path = ledger.path(leaf)[::-1]
        if len(path) > depth and path[depth] in branches:
            beside.add(leaf)
    return beside

"""Room that others were evicted from for a gang stays that gang's until it starts or time is up.

A gang with a hold is tried before all others: its pods go to the nodes they are nominated to, now
or once the victims have left. What still cannot be placed (a victim that is there yet may forbid
it) is kept free. Without holds whoever comes first by the order would take the room, the gang would
wait again, and the eviction would have been in vain.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .actions.attempt import Attempt
from .ledger import Ledger
from .session import Session
from .snapshot import TaskState


def held_gangs(session: Session) -> list[int]:
    """Gangs whose hold is not over and that have nominated pods waiting, the oldest hold first."""
    snapshot = session.snapshot
    until, tasks = snapshot.gangs.hold_until_s, snapshot.tasks
    if until is None:
        return []
    named = (tasks.state == TaskState.PENDING) & (tasks.nominated >= 0) & (tasks.gang >= 0)
    waits = np.bincount(tasks.gang[named], minlength=snapshot.gangs.count) > 0
    gangs = np.flatnonzero(waits & (until > snapshot.now_s) & session.admitted)
    order = np.lexsort((snapshot.gangs.rank[gangs], snapshot.gangs.created_s[gangs], until[gangs]))
    return gangs[order].tolist()


def honour(session: Session, place: Callable[[int, Attempt], bool]) -> None:
    """Gives each hold its room. `place(gang, attempt)` says whether the attempt found its place."""
    moved = session.snapshot.gangs.moved
    for gang in held_gangs(session):
        if moved is not None and moved[gang]:
            session.movers.add(gang)
        else:
            session.holders.add(gang)
        left = _nominated(session, gang)  # what more it asks for competes with others
        while (attempt := session.attempts.next(gang)).runs and attempt.pods <= left:
            if not place(gang, attempt):
                _keep_free(session, gang, attempt)
                break
            left -= attempt.pods
            session.attempts.moved(gang)


def _nominated(session: Session, gang: int) -> int:
    """Waiting pods of a gang that are nominated."""
    tasks = session.snapshot.tasks
    mine = (tasks.gang == gang) & (tasks.nominated >= 0) & (tasks.state == TaskState.PENDING)
    return int(np.count_nonzero(mine))


def _keep_free(session: Session, gang: int, attempt: Attempt) -> None:
    """Books the room of nominated pods that were not placed, so that nobody takes it."""
    kept = session.kept_free.setdefault(gang, [])
    ledger = session.ledger
    for _, (_, pods, klass, nominated) in attempt.runs:
        if nominated < 0:
            continue
        node = int(ledger.position[nominated])
        if _fits(ledger, klass, node, pods):
            ledger.book(klass, node, 0, pods, 0)
            kept.append((klass, node, pods))
    ledger.keep()


def _fits(ledger: Ledger, klass: int, node: int, pods: int) -> bool:
    """Whether the room of pods is there once others have left, that of their claims included."""
    free = ledger.idle[:, node] + ledger.releasing[:, node]
    gpus = ledger.gpus
    if gpus is not None and gpus.shares[klass]:
        return False  # on which devices nobody knows yet
    for claim in gpus.claims_of[klass] if gpus is not None else ():
        if claim.node not in (-1, node) or claim.room() < pods:
            return False
        if not claim.taken_later:
            free = free - claim.charge
    need = ledger.snapshot.classes.request[:, klass] * pods
    return bool((free >= need).all())


def give_back(session: Session, gang: int) -> None:
    """What is kept for a gang is free while that gang itself looks for room."""
    _rebook(session, gang, -1)


def keep_again(session: Session, gang: int) -> None:
    """It found nothing: what is kept for it is kept from the others once more."""
    _rebook(session, gang, 1)


def _rebook(session: Session, gang: int, sign: int) -> None:
    kept = session.kept_free.get(gang)
    if not kept:
        return
    for klass, node, pods in kept:
        session.ledger.book(klass, node, 0, sign * pods, 0)
    session.ledger.keep()

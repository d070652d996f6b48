"""One cycle: a picture of the cluster in, decisions out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .actions.attempt import Attempts
from .actions.last_resort import rounds
from .admittance import queue_refusal
from .dismissal import dismissed
from .fit import Fits
from .gpu.prices import priced
from .ledger import Ledger
from .pending import Pending
from .plan import Plan
from .policy import DEFAULT, Policy
from .session import Placed, Session
from .shares.books import queue_books
from .snapshot import Codes, Floats, Ints, Snapshot
from .waits import waits


def decide(
    snapshot: Snapshot, policy: Policy = DEFAULT, after: Callable[[str], None] | None = None
) -> Plan:
    """What to bind, nominate and evict now, and why the rest waits.

    Depends on nothing but its arguments: the same snapshot and policy give the same Plan. Raises
    SnapshotError, before anything else, where the arrays are malformed. `after` is told of each
    action that has been taken ("prepare" is what comes before them all): who has a clock may time
    them.
    """
    told = after or _nobody
    snapshot.validate()
    snapshot, leavers = dismissed(priced(snapshot, policy.mig_by_share))
    # 1. What queues hold and ask for, and what each is entitled to.
    books = queue_books(snapshot)
    share = policy.share(snapshot.queues, snapshot.total, books.request, policy.k_value)
    # 2. What is free, who waits, and how gladly each class goes where.
    ledger = Ledger(snapshot, books, share)
    pending = Pending(snapshot, policy.task_order)
    session = Session(
        snapshot=snapshot,
        policy=policy,
        ledger=ledger,
        fits=Fits(ledger, policy.filters, policy.scores),
        pending=pending,
        attempts=Attempts(ledger, pending),
        total=snapshot.total,
        refusal=queue_refusal(snapshot),
        evicted=leavers,
    )
    told("prepare")
    # 3. Decide, one action after the other.
    for action in rounds(session):
        action(session)
        ledger.verify()
        told(getattr(action, "__name__", type(action).__name__))
    # 4. Say what was decided and why the rest waits.
    binds = _rows(session, [p for p in session.placed if not p.later])
    nominations = _rows(session, [p for p in session.placed if p.later])
    return Plan(
        bind_task=binds[0],
        bind_node=binds[1],
        nominate_task=nominations[0],
        nominate_node=nominations[1],
        **_grants(session),
        **_evictions(session),
        **_zones(session),
        waits=waits(session),
        fair_share=share,
        allocated=_allocated(ledger),
        requested=books.request,
    )


def _nobody(action: str) -> None:
    """Nobody wants to know."""


def _rows(session: Session, placed: list[Placed]) -> tuple[Codes, Codes]:
    """Pods and their nodes as rows of the snapshot; gangs in the order of their first pod here."""
    if not placed:
        return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    first: dict[int, int] = {}
    for one in placed:
        first.setdefault(one.gang, len(first))
    placed = sorted(placed, key=lambda one: first[one.gang])
    pods = np.array([one.pods for one in placed])
    start = np.array([one.first for one in placed])
    offset = np.arange(int(pods.sum())) - np.repeat(np.cumsum(pods) - pods, pods)
    tasks = session.order[np.repeat(start, pods) + offset]
    nodes = session.ledger.origin[np.array([one.node for one in placed])]
    return tasks.astype(np.int32), np.repeat(nodes, pods).astype(np.int32)


def _grants(session: Session) -> dict[str, NDArray[Any]]:
    """The devices that pods share from now on, or once others have left: a row per device."""
    book = session.ledger.gpus
    rows = [
        (int(session.order[one.first]), slot, int(book.devices.need(one.klass)[one.node]))
        for one in session.placed
        if one.slots and book
        for slot in one.slots
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    task, slot = table[:2].astype(np.int32)
    return {"grant_task": task, "grant_slot": slot, "grant_mib": table[2].copy()}


def _evictions(session: Session) -> dict[str, Codes]:
    """The pods that leave, in the order decided, why, and for which gang."""
    rows = [(task, e.reason, e.beneficiary) for e in session.evicted for task in e.tasks]
    columns = np.array(rows, dtype=np.int32).reshape(-1, 3).T
    return dict(zip(("evict_task", "evict_reason", "evict_for"), columns.copy(), strict=True))


def _zones(session: Session) -> dict[str, Any]:
    """What the pods that got a place take of the zones inside their nodes."""
    cells = session.ledger.cells
    if cells is None:
        return {}
    runs = [range(one.first, one.first + one.pods) for one in session.placed]
    rows = list(cells.taken([session.task(position) for run in runs for position in run]))
    columns: Ints = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    names = ("zone_task", "zone_kind", "zone_index", "zone_resource")
    codes = {name: row.astype(np.int32) for name, row in zip(names, columns, strict=False)}
    return {**codes, "zone_amount": columns[4].copy()}


def _allocated(ledger: Ledger) -> Floats:
    """[3, Q] what queues hold after the plan."""
    rows = [row.allocated for row in ledger.queues]
    return np.array(rows, dtype=np.float64).reshape(-1, 3).T.copy()

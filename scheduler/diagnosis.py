"""Why no further pod of a class finds a node: which rule refuses which node, who comes nearest.

Figures are those at the end of the cycle: what is left after everything that was decided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .filters.resources import lacking, lacks
from .fit import Fit
from .gpu.lack import device_lack, missing_profile, old_ways
from .reason import Reason
from .rules import ALL
from .session import Session
from .snapshot import GPU, Bools

#: How many gangs a wait names as being ahead of it.
FEW = 3
_NO_NODE = -1


@dataclass(frozen=True, slots=True)
class ClassDiagnosis:
    """Why no further pod of a class finds a node."""

    reason: Reason  # NONE: one more would fit
    counts: tuple[tuple[Reason, int], ...]  # nodes by the first rule that refuses them
    nearest: int  # the suitable node that lacks least, a row of the snapshot's nodes
    missing: tuple[tuple[int, int], ...]  # (resource row, amount) it lacks
    free: dict[int, float]  # per resource row, what suitable nodes have free at this moment
    detail: str = ""


def diagnose(session: Session, klass: int) -> ClassDiagnosis:
    """Which rule refuses each node for one more pod of a class, and how near the nearest comes."""
    ledger, fit = session.ledger, session.fits.of(klass)
    rules = ledger.snapshot.classes.rules[klass]
    blocked = Reason(rules.blocked) or old_ways(ledger.snapshot, klass)
    if blocked:
        none: dict[int, float] = dict.fromkeys(range(fit.request.shape[0]), 0)
        every = ((blocked, ledger.nodes.count),)
        return ClassDiagnosis(blocked, every, _NO_NODE, (), none, rules.blocked_detail)
    suits = np.ones(ledger.nodes.count, dtype=np.bool_)
    counts: list[tuple[Reason, int]] = []
    for rule in session.policy.filters:
        allowed = rule.allows(ledger, klass, ALL)
        if allowed is not None:
            _count(counts, rule.reason, suits & ~allowed)
            suits &= allowed
    facts = len(counts)
    room = ledger.idle + ledger.releasing
    left = suits.copy()
    for reason, short in lacking(room, fit.request):
        _count(counts, reason, left & short)
        left &= ~short
    detail, parts = "", None
    if fit.shared is not None:
        lack = device_lack(ledger, fit)
        for reason, short in (
            (Reason.NO_POD_SLOT, lack.slots),
            (Reason.FRAGMENTED_GPU, lack.fragmented),
            (Reason.INSUFFICIENT_GPU, lack.short),
        ):
            _count(counts, reason, left & short)
            left &= ~short
        parts = lack.free
        detail = f"{lack.largest[suits].max(initial=0.0):.2f}"
    if left.any():
        decisive = Reason.NONE
    elif (fit.request[:, None] > _largest(ledger.nodes.allocatable, fit)).any():
        decisive = Reason.LARGER_THAN_ANY_NODE
    else:
        decisive = _most(counts[facts:] or counts)
    nearest, missing = _nearest(session, fit, suits)
    free: list[int] = np.sum(np.maximum(ledger.idle[:, suits], 0), axis=1).tolist()
    if decisive is Reason.LARGER_THAN_ANY_NODE and parts is None:
        detail = missing_profile(ledger.snapshot, klass)
        decisive = Reason.MIG_PROFILE_MISSING if detail else decisive
    known: dict[int, float] = dict(enumerate(free))
    if parts is not None:
        known[GPU] = float(parts[suits].sum())
    named = decisive in (Reason.FRAGMENTED_GPU, Reason.MIG_PROFILE_MISSING)
    return ClassDiagnosis(decisive, tuple(counts), nearest, missing, known, detail if named else "")


def _largest(allocatable: np.ndarray, fit: Fit) -> np.ndarray:
    """[R, 1] the most that any node the class may use has of each resource."""
    usable = allocatable[:, fit.suits]
    if not usable.shape[1]:
        return np.full((allocatable.shape[0], 1), np.iinfo(np.int64).max)
    return usable.max(axis=1, keepdims=True)


def _count(counts: list[tuple[Reason, int]], reason: Reason, refused: Bools) -> None:
    """Adds the nodes that a rule refuses first; resources that share a word are added up."""
    number = int(refused.sum())
    if number == 0:
        return
    if counts and counts[-1][0] is reason:
        counts[-1] = (reason, counts[-1][1] + number)
    else:
        counts.append((reason, number))


def _most(counts: list[tuple[Reason, int]]) -> Reason:
    """The reason of most nodes, the earlier rule of equals; NONE where there is no node at all."""
    if not counts:
        return Reason.GANG_DOES_NOT_FIT
    return max(counts, key=lambda pair: pair[1])[0]


def _nearest(session: Session, fit: Fit, suits: Bools) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The suitable node that lacks the smallest part of the request, and what it lacks.

    A node that has nothing at all of a resource asked for is named only where all are like that.
    """
    ledger = session.ledger
    short = lacks(ledger.idle + ledger.releasing, fit.request)
    part = (short / np.maximum(fit.request, 1)[:, None]).sum(axis=0)
    part[~suits | (part == 0)] = np.inf
    if not np.isfinite(part).any():
        return _NO_NODE, ()
    never = ((ledger.nodes.allocatable <= 0) & (fit.request > 0)[:, None]).any(axis=0)
    if np.isfinite(part[~never]).any():
        part[never] = np.inf
    node = int(part.argmin())
    missing = tuple((r, int(short[r, node])) for r in np.flatnonzero(short[:, node]).tolist())
    return int(ledger.origin[node]), missing

"""Why no further pod of a class finds a node: which rule refuses which node, who comes nearest.

Figures are those at the end of the cycle: what is left after everything that was decided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .filters.resources import lacking, lacks
from .fit import Fit
from .reason import Reason
from .rules import ALL
from .session import Session
from .snapshot import Bools

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
    free: dict[int, int]  # per resource row, what suitable nodes have free
    detail: str = ""


def diagnose(session: Session, klass: int) -> ClassDiagnosis:
    """Which rule refuses each node for one more pod of a class, and how near the nearest comes."""
    ledger, fit = session.ledger, session.fits.of(klass)
    rules = ledger.snapshot.classes.rules[klass]
    if rules.blocked:
        reason, none = Reason(rules.blocked), dict.fromkeys(range(fit.request.shape[0]), 0)
        every = ((reason, ledger.nodes.count),)
        return ClassDiagnosis(reason, every, _NO_NODE, (), none, rules.blocked_detail)
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
    if left.any():
        decisive = Reason.NONE
    elif (fit.request[:, None] > _largest(ledger.nodes.allocatable, fit)).any():
        decisive = Reason.LARGER_THAN_ANY_NODE
    else:
        decisive = _most(counts[facts:] or counts)
    nearest, missing = _nearest(session, fit, suits)
    free: list[int] = np.sum(np.maximum(room[:, suits], 0), axis=1).tolist()
    return ClassDiagnosis(decisive, tuple(counts), nearest, missing, dict(enumerate(free)))


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
    """The suitable node that lacks the smallest part of the request, and what it lacks."""
    ledger = session.ledger
    short = lacks(ledger.idle + ledger.releasing, fit.request)
    part = (short / np.maximum(fit.request, 1)[:, None]).sum(axis=0)
    part[~suits | (part == 0)] = np.inf
    if not np.isfinite(part).any():
        return _NO_NODE, ()
    node = int(part.argmin())
    missing = tuple((r, int(short[r, node])) for r in np.flatnonzero(short[:, node]).tolist())
    return int(ledger.origin[node]), missing

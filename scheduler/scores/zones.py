"""The fewer zones a pod spans inside its node, the better. Source: KAI 0.17, plugin numa."""

from __future__ import annotations

import numpy as np

from ..fit import Fit
from ..rules import At
from ..snapshot import Floats
from ..zones.book import ZoneBook
from ..zones.facts import ZonePolicy


def numa_span(fit: Fit, at: At) -> Floats | None:
    """1 / NUMA cells used; where nothing is aligned, all cells of the node count as used."""
    cells = fit.ledger.cells
    return _span(fit, at, cells.numa if cells else None)


def link_span(fit: Fit, at: At) -> Floats | None:
    """1 / link groups that the pod's GPUs are of."""
    cells = fit.ledger.cells
    return _span(fit, at, cells.links if cells else None)


def _span(fit: Fit, at: At, book: ZoneBook | None) -> Floats | None:
    if book is None or not book.concerned[fit.klass]:
        return None
    zones = book.facts.count[at]
    span = book.aligned(fit.klass, at).span
    loose = book.policy(fit.klass, at) == ZonePolicy.NONE
    span = np.where(loose, zones, span)
    span = np.where(zones == 0, max(int(book.facts.count.max(initial=1)), 1), span)
    return np.where(span > 0, 1.0 / np.maximum(span, 1), 0.0)

"""Node selector, required node affinity and the nodes that a volume is tied to.

Source: Kubernetes NodeSelector: a selector is an OR of terms, a term an AND of requirements; a term
without requirements matches no node. `NotIn` also holds where the label is absent; `Gt` and `Lt`
need a label that is an integer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import Bools, ClassRules, Nodes, Op, Requirement, Selector, Term

if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..rules import At

_NO_NUMBER = np.iinfo(np.int64).min
_FEW = 8


def selected(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Nodes that satisfy every selector of the class."""
    wanted = required(ledger.nodes, ledger.snapshot.classes.rules[klass])
    return None if wanted is None else wanted[at]


def required(nodes: Nodes, rules: ClassRules) -> Bools | None:
    """[N] nodes within all required selectors; None where there are none."""
    if not rules.required:
        return None
    suits = np.ones(nodes.count, dtype=np.bool_)
    for selector in rules.required:
        suits &= within(nodes, selector)
    return suits


def within(nodes: Nodes, selector: Selector) -> Bools:
    """[N] nodes that match one of the selector's terms."""
    suits = np.zeros(nodes.count, dtype=np.bool_)
    for term in selector:
        suits |= matches(nodes, term)
    return suits


def matches(nodes: Nodes, term: Term) -> Bools:
    """[N] nodes that meet all requirements of a term; none where it has no requirement."""
    suits = np.full(nodes.count, bool(term))
    for requirement in term:
        suits &= _meets(nodes, requirement)
    return suits


def _meets(nodes: Nodes, need: Requirement) -> Bools:
    value = nodes.label_value[need.key]
    match need.op:
        case Op.EXISTS:
            return value >= 0
        case Op.DOES_NOT_EXIST:
            return value < 0
        case Op.IN:
            return _one_of(value, need.values)
        case Op.NOT_IN:
            return ~_one_of(value, need.values)
        case Op.GT:
            number = nodes.label_number[need.key]
            return (number != _NO_NUMBER) & (number > need.number)
        case Op.LT:
            number = nodes.label_number[need.key]
            return (number != _NO_NUMBER) & (number < need.number)


def _one_of(value: np.ndarray, wanted: tuple[int, ...]) -> Bools:
    """Nodes whose label has one of the codes; -1 in `wanted` (a value no node has) never counts."""
    codes = [code for code in wanted if code >= 0]
    if len(codes) > _FEW:
        return np.isin(value, codes)
    found = np.zeros(value.shape, dtype=np.bool_)
    for code in codes:
        found |= value == code
    return found

"""Preferred node affinity, PreferNoSchedule taints and soft spread constraints.

Source: Kubernetes scoring of the same rules; KAI has none of them. Each value is in 0..1 and cut to
whole steps, so that with the weights of `policy.py` every difference is a multiple of 10: larger
than bin-packing, smaller than "has room now". Pods that state no such wish are placed as by KAI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..filters.labels import matches
from ..filters.topology_spread import emptiest
from ..snapshot import Floats

if TYPE_CHECKING:
    from ..fit import Fit
    from ..rules import At

#: Weight of each preference, and into how many steps of 10 its value is cut.
NODE_AFFINITY_WEIGHT = 400.0
SOFT_TAINTS_WEIGHT = 300.0
SOFT_SPREAD_WEIGHT = 200.0
_STEP = 10.0


def preferred_nodes(fit: Fit, at: At) -> Floats | None:
    """The part of the class's preferred node affinity weights that a node satisfies."""
    terms = fit.rules.preferred
    nodes = fit.ledger.nodes
    if not terms:
        return None
    total = np.zeros(nodes.count, dtype=np.float64)
    for weight, term in terms:
        total += weight * matches(nodes, term)
    most = sum(weight for weight, _ in terms)
    return _stepped(total / max(most, 1), NODE_AFFINITY_WEIGHT)[at]


def no_soft_taints(fit: Fit, at: At) -> Floats | None:
    """1 less the part of the cluster's PreferNoSchedule taints that the node has untolerated."""
    nodes = fit.ledger.nodes
    hard, soft = nodes.taints.shape[0], nodes.soft_taints.shape[0]
    if soft == 0:
        return None
    hurts = np.ones(soft, dtype=np.bool_)
    hurts[[row - hard for row in fit.rules.tolerates if hard <= row < hard + soft]] = False
    count = nodes.soft_taints[hurts].sum(axis=0)
    most = max(int(count.max(initial=0)), 1)
    return _stepped(1.0 - count / most, SOFT_TAINTS_WEIGHT)[at]


def soft_spread(fit: Fit, at: At) -> Floats | None:
    """Domains with fewer matching pods first, for `ScheduleAnyway` constraints."""
    rules = [rule for rule in fit.ledger.peers[fit.klass].spread if not rule.hard]
    if not rules:
        return None
    value = np.zeros(fit.ledger.nodes.count, dtype=np.float64)
    for rule in rules:
        above = rule.counter.counts[rule.domain] - emptiest(rule)
        part = 1.0 - above / max(int(above.max(initial=0)), 1)
        value += np.where(rule.domain >= 0, np.clip(part, 0.0, 1.0), 0.0)
    return _stepped(value / len(rules), SOFT_SPREAD_WEIGHT)[at]


def _stepped(value: Floats, weight: float) -> Floats:
    steps = weight / _STEP
    return np.floor(value * steps + 1e-9) / steps

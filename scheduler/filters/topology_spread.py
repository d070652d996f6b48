"""Topology spread constraints that forbid (`DoNotSchedule`).

Source: Kubernetes PodTopologySpread: after the pod is placed, its domain may hold at most
`max_skew` matching pods more than the emptiest eligible domain; that minimum is 0 while there are
fewer domains than `min_domains`. Nodes without the label are refused; only nodes that the policies
admit count, and pods that are being deleted do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..snapshot import Bools

if TYPE_CHECKING:
    from ..ledger import Ledger
    from ..peers import SpreadRule
    from ..rules import At


def spread(ledger: Ledger, klass: int, at: At) -> Bools | None:
    """Nodes in whose domain one more pod keeps every hard constraint."""
    rules = [rule for rule in ledger.peers[klass].spread if rule.hard]
    if not rules:
        return None
    suits = np.ones(ledger.nodes.count, dtype=np.bool_)
    for rule in rules:
        count = rule.counter.counts[rule.domain] + (1 if rule.matches_itself else 0)
        suits &= (rule.domain >= 0) & (count - emptiest(rule) <= rule.max_skew)
    return suits[at]


def emptiest(rule: SpreadRule) -> int:
    """Matching pods in the eligible domain that holds the fewest."""
    if rule.domains.shape[0] < max(rule.min_domains, 1):
        return 0
    return int(rule.counter.counts[rule.domains].min())

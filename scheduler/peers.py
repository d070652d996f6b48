"""Pods that other pods care about, counted per domain: affinity, anti-affinity, spread.

A rule over peers is a count per topology domain of the pods whose class matches a selector. Classes
say which selectors match them, so a placement changes one number per selector concerned, and the
question "what is in this node's domain" is one gather. Equal counters are shared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .filters.labels import required
from .filters.taints import bearable
from .snapshot import USED, Bools, ClassRules, Codes, Ints, Nodes, PeerTerm, Snapshot, TaskState


class Counter:
    """How many pods, weighted by class, each domain holds."""

    __slots__ = ("counts", "domain", "moves", "weight")

    def __init__(self, domain: Codes, weight: Ints, domains: int) -> None:
        self.domain = domain  # [N]; -1 = the node does not count
        self.weight = weight  # [C]
        #: [domains + 1]; the last entry stays 0, so that a missing domain (-1) reads as "none".
        self.counts: Ints = np.zeros(domains + 1, dtype=np.int64)
        self.moves = 0  # grows with each change

    def count(self, klass: Codes, node: Codes) -> None:
        """Counts pods that are there already: `klass` and `node` of each."""
        domain = self.domain[node]
        there = domain >= 0
        np.add.at(self.counts, domain[there], self.weight[klass[there]])

    def add(self, klass: int, node: int, copies: int) -> None:
        """Counts `copies` more pods of a class on a node; negative takes them away."""
        domain = self.domain[node]
        if domain >= 0:
            self.counts[domain] += self.weight[klass] * copies
            self.moves += 1


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """One topology spread constraint of a class, with what it counts."""

    counter: Counter  # eligible nodes only
    domain: Codes  # [N] of every node
    domains: Codes  # the eligible domains
    max_skew: int
    min_domains: int
    hard: bool
    matches_itself: bool


@dataclass(frozen=True, slots=True)
class PeerRules:
    """All rules of one class that look at other pods. Empty for most classes."""

    near: tuple[Counter, ...] = ()
    near_itself: bool = False  # the class matches all its own affinity terms
    apart: tuple[Counter, ...] = ()
    avoids_itself: bool = False
    likes: tuple[tuple[int, Counter], ...] = ()
    spread: tuple[SpreadRule, ...] = ()

    def counters(self) -> tuple[Counter, ...]:
        """Everything the rules read. Empty: other pods do not matter to the class."""
        liked = (counter for _, counter in self.likes)
        spread = (rule.counter for rule in self.spread)
        return tuple(dict.fromkeys((*self.near, *self.apart, *liked, *spread)))


_NONE = PeerRules()


class PeerBook:
    """Builds the rules of the classes that may be placed, and the counters behind them."""

    def __init__(self, snapshot: Snapshot, nodes: Nodes, node_of: Codes, wanted: Bools) -> None:
        """`nodes` in ledger order, `node_of` [T] the pods' nodes there, `wanted` [C] classes."""
        self.snapshot, self.nodes = snapshot, nodes
        classes = snapshot.classes
        self.rules: list[PeerRules] = [_NONE] * classes.count
        self._counters: dict[tuple[int, bytes, bytes], Counter] = {}
        if snapshot.peers or any(rules.spread for rules in classes.rules):
            self._index()
            self._place(node_of)
            for klass in np.flatnonzero(wanted).tolist():
                self.rules[klass] = self._rules(klass, classes.rules[klass])
        #: Per class, the counters that its pods move.
        self.moved: list[list[Counter]] = [[] for _ in range(classes.count)]
        for counter in self._counters.values():
            for klass in np.flatnonzero(counter.weight).tolist():
                self.moved[klass].append(counter)

    def _index(self) -> None:
        """Which terms match, repel and attract which classes, as [P, C] tables."""
        peers, classes = self.snapshot.peers, self.snapshot.classes
        shape = (len(peers), classes.count)
        self._matches = np.zeros(shape, dtype=np.bool_)
        self._repels = np.zeros(shape, dtype=np.int64)  # the class holds the term as anti-affinity
        self._attracts = np.zeros(shape, dtype=np.int64)  # ... as a preference, with its weight
        for row, peer in enumerate(peers):
            self._matches[row] = peer.matches
        for klass, rules in enumerate(classes.rules):
            for row in rules.anti_affinity:
                self._repels[row, klass] = 1
            for weight, row in rules.preferred_affinity:
                self._attracts[row, klass] += weight
        self._repelling, self._attracting = self._repels.any(axis=1), self._attracts.any(axis=1)

    def _place(self, node_of: Codes) -> None:
        tasks = self.snapshot.tasks
        there = np.isin(tasks.state, [int(s) for s in USED]) & (node_of >= 0)
        leaving = np.isin(tasks.state, [int(TaskState.RELEASING), int(TaskState.STUCK)])
        self._there = tasks.klass[there], node_of[there]
        self._staying = tasks.klass[there & ~leaving], node_of[there & ~leaving]

    def _rules(self, klass: int, rules: ClassRules) -> PeerRules:
        peers = self.snapshot.peers
        mine = self._matches[:, klass]
        near, near_itself = self._near(klass, rules)
        own = [peers[row] for row in rules.anti_affinity]
        theirs = np.flatnonzero(mine & self._repelling).tolist()
        apart = [self._counter(peer, peer.matches.astype(np.int64)) for peer in own]
        apart += [self._counter(peers[row], self._repels[row]) for row in theirs]
        likes = [
            (weight, self._counter(peers[row], peers[row].matches.astype(np.int64)))
            for weight, row in rules.preferred_affinity
        ]
        fans = np.flatnonzero(mine & self._attracting).tolist()
        likes += [(1, self._counter(peers[row], self._attracts[row])) for row in fans]
        return PeerRules(
            near=near,
            near_itself=near_itself,
            apart=tuple(dict.fromkeys(apart)),
            avoids_itself=any(mine[row] for row in rules.anti_affinity),
            likes=tuple(likes),
            spread=self._spread(klass, rules),
        )

    def _near(self, klass: int, rules: ClassRules) -> tuple[tuple[Counter, ...], bool]:
        """A pod counts for an affinity term only if it matches all of the class's terms."""
        if not rules.affinity:
            return (), False
        terms = [self.snapshot.peers[row] for row in rules.affinity]
        together = np.logical_and.reduce([term.matches for term in terms])
        weight = together.astype(np.int64)
        return tuple(self._counter(term, weight) for term in terms), bool(together[klass])

    def _spread(self, klass: int, rules: ClassRules) -> tuple[SpreadRule, ...]:
        found: list[SpreadRule] = []
        hard = [s for s in rules.spread if s.hard]
        for constraint in rules.spread:
            peer = self.snapshot.peers[constraint.peer]
            domain = self.nodes.domain[peer.topology]
            eligible = domain >= 0
            for other in hard if constraint.hard else ():
                eligible = eligible & (
                    self.nodes.domain[self.snapshot.peers[other.peer].topology] >= 0
                )
            if constraint.honor_affinity:
                eligible = _both(eligible, required(self.nodes, rules))
            if constraint.honor_taints:
                eligible = _both(eligible, bearable(self.nodes, rules))
            counter = self._counter(peer, peer.matches.astype(np.int64), eligible)
            found.append(
                SpreadRule(
                    counter=counter,
                    domain=domain,
                    domains=np.flatnonzero(np.bincount(domain[eligible])).astype(np.int32),
                    max_skew=constraint.max_skew,
                    min_domains=constraint.min_domains,
                    hard=constraint.hard,
                    matches_itself=bool(peer.matches[klass]),
                )
            )
        return tuple(found)

    def _counter(self, peer: PeerTerm, weight: Ints, eligible: Bools | None = None) -> Counter:
        """The shared counter; with `eligible` nodes named, it leaves out pods that are leaving."""
        key = (peer.topology, weight.tobytes(), b"" if eligible is None else eligible.tobytes())
        counter = self._counters.get(key)
        if counter is None:
            domain = self.nodes.domain[peer.topology]
            size = int(domain.max(initial=-1)) + 1
            if eligible is not None:
                domain = np.where(eligible, domain, -1).astype(np.int32)
            counter = self._counters[key] = Counter(domain, weight, size)
            counter.count(*(self._there if eligible is None else self._staying))
        return counter


def _both(left: Bools, right: Bools | None) -> Bools:
    return left if right is None else left & right

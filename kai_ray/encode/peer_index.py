"""Which pods each selector over pods matches, kept while pods and selectors come and go.

A class is the set of selectors that match a pod, not its labels: a label such as the job's name
would make every pod a class. A selector that requires a label value is asked only about the pods
that carry one of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kai_ray.cluster.port import Key

from .peers import Peers
from .selectors import Labels, matches
from .symbols import Symbols

#: Called with a pod whose set of matching selectors has changed.
OnChange = Callable[[Key], None]
_NOTHING: frozenset[int] = frozenset()


class PeerIndex:
    def __init__(self, on_change: OnChange) -> None:
        self.peers: Symbols[Peers] = Symbols()
        self.matched: dict[Key, frozenset[int]] = {}
        self._on_change = on_change
        self._labels: dict[Key, Labels] = {}
        self._members: dict[int, set[Key]] = {}
        self._namespaces: dict[str, Labels] = {}
        self._by_value: dict[str, dict[str, set[Key]]] = {}  # label keys in use as anchors
        self._anchored: dict[tuple[str, str], set[int]] = {}
        self._free: set[int] = set()  # selectors without an anchor

    def acquire(self, peers: Peers) -> int:
        known = peers in self.peers.ids
        symbol = self.peers.acquire(peers)
        if not known:
            self._members[symbol] = set()
            anchor = _anchor(peers)
            if anchor is None:
                self._free.add(symbol)
            else:
                for value in anchor[1]:
                    self._anchored.setdefault((anchor[0], value), set()).add(symbol)
            for pod in self._candidates(anchor):
                if self._meets(peers, pod):
                    self._join(symbol, pod)
        return symbol

    def release(self, symbol: int) -> None:
        peers = self.peers.key(symbol)
        if not self.peers.release(symbol):
            return
        for pod in self._members.pop(symbol):
            self.matched[pod] = self.matched[pod] - {symbol}
            self._on_change(pod)
        anchor = _anchor(peers)
        if anchor is None:
            self._free.discard(symbol)
            return
        for value in anchor[1]:
            left = self._anchored[anchor[0], value]
            left.discard(symbol)
            if not left:
                del self._anchored[anchor[0], value]

    def put_pod(self, pod: Key, labels: Labels) -> frozenset[int]:
        """The selectors that match; the caller joins them to the pod's class itself."""
        old = self._labels.get(pod)
        if old == labels:
            return self.matched.get(pod, _NOTHING)
        if old is not None:
            self.drop_pod(pod)
        self._labels[pod] = labels
        for key, table in self._by_value.items():
            if key in labels:
                table.setdefault(labels[key], set()).add(pod)
        if not self.peers.ids:
            return _NOTHING
        found = frozenset(s for s in self._asked(labels) if self._meets(self.peers.key(s), pod))
        for symbol in found:
            self._members[symbol].add(pod)
        if found:
            self.matched[pod] = found
        return found

    def drop_pod(self, pod: Key) -> None:
        labels = self._labels.pop(pod, None)
        if labels is None:
            return
        for key, table in self._by_value.items():
            if key in labels:
                table[labels[key]].discard(pod)
        for symbol in self.matched.pop(pod, _NOTHING):
            self._members[symbol].discard(pod)

    def put_namespace(self, name: str, labels: Labels | None) -> None:
        """Labels of a namespace; None = it is gone."""
        if self._namespaces.get(name) == labels:
            return
        if labels is None:
            self._namespaces.pop(name, None)
        else:
            self._namespaces[name] = labels
        for peers, symbol in self.peers.ids.items():
            if peers.namespace_needs is not None:
                self._recheck(peers, symbol, name)

    def _recheck(self, peers: Peers, symbol: int, namespace: str) -> None:
        for pod in [p for p in self._candidates(_anchor(peers)) if p.namespace == namespace]:
            meets = self._meets(peers, pod)
            if meets and pod not in self._members[symbol]:
                self._join(symbol, pod)
            elif not meets and pod in self._members[symbol]:
                self._members[symbol].discard(pod)
                self.matched[pod] = self.matched[pod] - {symbol}
                self._on_change(pod)

    def _join(self, symbol: int, pod: Key) -> None:
        self._members[symbol].add(pod)
        self.matched[pod] = self.matched.get(pod, _NOTHING) | {symbol}
        self._on_change(pod)

    def _asked(self, labels: Labels) -> Iterable[int]:
        yield from self._free
        if self._anchored:
            seen: set[int] = set()
            for item in labels.items():
                for symbol in self._anchored.get(item, ()):
                    if symbol not in seen:
                        seen.add(symbol)
                        yield symbol

    def _candidates(self, anchor: tuple[str, tuple[str, ...]] | None) -> list[Key]:
        if anchor is None:
            return list(self._labels)
        key, values = anchor
        table = self._by_value.get(key)
        if table is None:
            table = self._by_value[key] = {}
            for pod, labels in self._labels.items():
                if key in labels:
                    table.setdefault(labels[key], set()).add(pod)
        return [pod for value in values for pod in table.get(value, ())]

    def _meets(self, peers: Peers, pod: Key) -> bool:
        if peers.needs is None:
            return False
        if pod.namespace not in peers.namespaces:
            if peers.namespace_needs is None:
                return False
            if not matches(peers.namespace_needs, self._namespaces.get(pod.namespace, {})):
                return False
        return matches(peers.needs, self._labels[pod])


def _anchor(peers: Peers) -> tuple[str, tuple[str, ...]] | None:
    """A label value that every matching pod carries."""
    for need in peers.needs or ():
        if need.op == "In":
            return need.key, need.values
    return None

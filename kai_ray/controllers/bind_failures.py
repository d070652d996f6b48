"""Pods whose bind has failed: how often, why, and until when they are held back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kai_ray.cluster.port import Key
from kai_ray.controllers import backoff
from kai_ray.encode import Encoder


@dataclass(slots=True)
class Failure:
    uid: str
    group: Key
    failures: int
    message: str


class BindFailures:
    """`on_change` is called with the gang whenever something about its failures changes, `on_fail`
    with (node, gang, message) for each bind that failed."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: dict[Key, Failure] = {}
        self._by_group: dict[Key, dict[Key, Failure]] = {}
        self.on_change: Callable[[Key], None] = lambda group: None
        self.on_fail: Callable[[str, Key, str], None] = lambda node, group, message: None

    def note(self, pod: Key, uid: str, group: Key, message: str, *, by_node: bool = True) -> int:
        """One more failure, of its node or not; returns how many there are now."""
        known = self._known.get(pod)
        count = known.failures + 1 if known is not None and known.uid == uid else 1
        self._forget(pod)
        self._known[pod] = Failure(uid, group, count, message)
        self._by_group.setdefault(group, {})[pod] = self._known[pod]
        self.on_change(group)
        node = self._encoder.pods.on_its_way_to(pod)
        if node and by_node:
            self.on_fail(node, group, message)
        return count

    def count(self, pod: Key, uid: str) -> int:
        known = self._known.get(pod)
        return known.failures if known is not None and known.uid == uid else 0

    def hold(self, pod: Key, uid: str) -> float:
        """Keeps the pod out of decisions; returns for how many seconds."""
        self._encoder.hold_pod(pod, uid)
        return backoff.wait_s(self.count(pod, uid))

    def pods(self) -> list[Key]:
        return list(self._known)

    def clear(self, pod: Key) -> None:
        """It is bound, or it is gone."""
        known = self._forget(pod)
        if known is not None:
            self._encoder.release_pod(pod)
            self.on_change(known.group)

    def _forget(self, pod: Key) -> Failure | None:
        known = self._known.pop(pod, None)
        if known is not None:
            mates = self._by_group[known.group]
            del mates[pod]
            if not mates:
                del self._by_group[known.group]
        return known

    def of_group(self, group: Key) -> str | None:
        """Why members of a gang are held back; None if none is."""
        for pod, failure in self._by_group.get(group, {}).items():
            times = f"{failure.failures} times" if failure.failures > 1 else "once"
            return f"binding pod {pod.name} failed {times}: {failure.message}"
        return None

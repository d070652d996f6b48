"""Events do not live for ever: an hour, and not more than a bounded number of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kai_ray.cluster import resources as r
from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import Key, Object

if TYPE_CHECKING:
    from .store import MemoryStore

LIFETIME_S = 3600.0
MOST = 20_000
#: Look for old ones after this many new ones, or after an eighth of those there are.
EVERY = 256


class EventExpiry:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._since = 0

    def created(self) -> None:
        """Counts a new event; now and then drops those that are too old or too many."""
        self._since += 1
        if self._since < EVERY:
            return
        served = self._store.kinds.find(r.EVENT)
        objects = self._store.state.table(served.group_plural).objects
        if self._since < len(objects) // 8:
            return  # sorting them all more often would cost more than they do
        self._since = 0
        oldest_first = sorted(objects.items(), key=lambda item: (_seen(item[1]), item[0]))
        limit = rfc3339(self._store.clock.now() - LIFETIME_S)
        surplus = len(oldest_first) - MOST
        for i, (key, event) in enumerate(oldest_first):
            if i >= surplus and _seen(event) >= limit:
                return
            self._drop(key, event)

    def _drop(self, key: Key, event: Object) -> None:
        self._store.commit(self._store.kinds.find(r.EVENT), key, "DELETED", event, event)


def _seen(event: Object) -> str:
    """When the event was last heard of; timestamps of one form sort as text."""
    found = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
    return found if isinstance(found, str) else event["metadata"]["creationTimestamp"]

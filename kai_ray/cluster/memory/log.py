"""The history of one resource and the watches that follow it."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from kai_ray.cluster.port import Gone, Key, Object, WatchEvent
from kai_ray.cluster.selectors import Matcher

#: A watcher that is this far behind is cut off and must list again.
LONGEST_QUEUE = 200_000
#: A quiet watch that asked for bookmarks gets one about this often.
BOOKMARK_EVERY_S = 30.0


class Change(NamedTuple):
    """`new` is the last state, with the version of the deletion, for DELETED."""

    version: int
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    key: Key
    old: Object | None
    new: Object


class Watcher:
    """One watch: a queue that the store fills and one reader empties."""

    def __init__(
        self,
        namespace: str | None,
        match: Matcher | None,
        on_event: Callable[[], None] | None,
        present: Callable[[Object], Object],
        on_close: Callable[[Watcher], None],
        bookmark: Callable[[], WatchEvent] | None,
    ) -> None:
        self._namespace = namespace
        self._match = match
        self._on_event = on_event
        self._present = present
        self._on_close = on_close
        self._bookmark = bookmark
        self._bookmarked_s = time.monotonic()
        self._queue: deque[WatchEvent] = deque()
        self._filled = threading.Condition(threading.Lock())
        self._gone = False
        self.closed = False

    def next(self, timeout_s: float = 0.0) -> WatchEvent | None:
        if not self._queue and timeout_s > 0 and not self._gone:
            with self._filled:
                self._filled.wait_for(
                    lambda: bool(self._queue) or self._gone or self.closed, timeout_s
                )
        if self._gone:
            raise Gone("too old resource version: the watch fell too far behind; list again")
        try:
            return self._queue.popleft()
        except IndexError:
            return self._due_bookmark() if timeout_s > 0 else None

    def _due_bookmark(self) -> WatchEvent | None:
        if self._bookmark is None or self.closed:
            return None
        now = time.monotonic()
        if now - self._bookmarked_s < BOOKMARK_EVERY_S:
            return None
        self._bookmarked_s = now
        return self._bookmark()

    def silent_s(self) -> float:
        return 0.0

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._on_close(self)
            with self._filled:
                self._filled.notify_all()

    def wants(self, key: Key) -> bool:
        return self._namespace is None or key.namespace == self._namespace

    def cut(self) -> None:
        """Ends the watch: its reader must list again."""
        self._gone = True
        self._queue.clear()
        self._tell()

    def offer(self, change: Change) -> None:
        """Queues the change as this watch sees it: entering the selection adds, leaving deletes."""
        if not self.wants(change.key):
            return
        event = self._seen(change)
        if event is not None:
            self.put(event)

    def _seen(self, change: Change) -> WatchEvent | None:
        match = self._match
        if match is None:
            return WatchEvent(change.type, self._present(change.new))
        was = change.old is not None and match(change.old)
        now = change.type != "DELETED" and match(change.new)
        if now:
            return WatchEvent("MODIFIED" if was else "ADDED", self._present(change.new))
        if not was:
            return None
        if change.type == "DELETED":
            return WatchEvent("DELETED", self._present(change.new))
        assert change.old is not None
        last = {**change.old, "metadata": {**change.old["metadata"]}}
        last["metadata"]["resourceVersion"] = str(change.version)
        return WatchEvent("DELETED", self._present(last))

    def put(self, event: WatchEvent) -> None:
        self._queue.append(event)
        if len(self._queue) > LONGEST_QUEUE:
            self.cut()
        else:
            self._tell()

    def start(self, objects: Iterable[Object]) -> None:
        """Queues the state at the start as additions."""
        for obj in objects:
            if self._match is None or self._match(obj):
                self._queue.append(WatchEvent("ADDED", self._present(obj)))
        self._tell()

    def _tell(self) -> None:
        with self._filled:
            self._filled.notify_all()
        if self._on_event is not None:
            self._on_event()


class History:
    """The last changes of one resource, oldest first. `floor`: changes after it are all here."""

    def __init__(self, size: int, floor: int) -> None:
        self._size = size
        self._changes: list[Change] = []
        self.floor = floor

    def add(self, change: Change) -> None:
        self._changes.append(change)
        if len(self._changes) >= 2 * self._size:
            cut = len(self._changes) - self._size
            self.floor = self._changes[cut - 1].version
            del self._changes[:cut]

    def compact(self, version: int) -> None:
        """Forgets changes up to and including `version`."""
        cut = bisect_right(self._changes, version, key=lambda change: change.version)
        del self._changes[:cut]
        self.floor = max(self.floor, version)

    def since(self, version: int) -> list[Change]:
        """Changes after `version`. Raises Gone if some of them are forgotten."""
        if version < self.floor:
            raise Gone(
                f"too old resource version: {version} ({self.floor}); list again",
            )
        at = bisect_right(self._changes, version, key=lambda change: change.version)
        return self._changes[at:]

"""Live news as server-sent events: which pages have changed, cycles, and what happens to jobs.

Nobody is called while the scheduler works: a task looks once a second what has changed, and events
of jobs wait in a bounded queue. Who reads too slowly loses events and is told to look again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from kai_ray.cluster.clock import rfc3339
from kai_ray.cluster.port import ApiError, TooManyRequests, Unauthorized
from kai_ray.console.cluster import Cluster, View
from kai_ray.console.clusters import Clusters

EVERY_S = 1.0
PING_S = 15.0
#: Listeners at once; others poll.
MOST = 100
#: Events that wait for one listener.
QUEUED = 500
#: A listener's right to listen is looked at again this often.
RIGHTS_S = 30.0


#: The namespaces whose jobs somebody sees; None: all.
Seen = frozenset[str] | None


class Live:
    """The listeners of a console."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._count = 0
        self._closed = False

    def close(self) -> None:
        """Ends every stream within a second."""
        self._closed = True

    def stream(self, cluster: Cluster, seen: Seen, again: Callable[[], Seen]) -> StreamingResponse:
        """`seen` are the namespaces that the listener sees; `again` says so anew, or raises
        Unauthorized, which ends the stream. Raises TooManyRequests."""
        if self._count >= MOST:
            raise TooManyRequests("too many listen already: poll instead")
        return StreamingResponse(
            self._events(cluster, seen, again),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    async def _events(
        self, cluster: Cluster, seen: Seen, again: Callable[[], Seen]
    ) -> AsyncIterator[bytes]:
        self._count += 1
        listener = Listener(cluster, seen)
        quiet_s, since_s = 0.0, 0.0
        try:
            yield await asyncio.to_thread(listener.hello)
            while not self._closed:
                await asyncio.sleep(EVERY_S)
                since_s += EVERY_S
                if since_s >= RIGHTS_S:
                    since_s = 0.0
                    try:
                        listener.seen = await asyncio.to_thread(again)
                    except Unauthorized:
                        return
                    except ApiError:
                        pass  # the server does not answer: what was so, is so
                # A cluster that is away may keep whoever looks waiting: not the event loop.
                news = await asyncio.to_thread(listener.news)
                quiet_s = 0.0 if news else quiet_s + EVERY_S
                if quiet_s >= PING_S:
                    quiet_s, news = 0.0, [b": ping\n\n"]
                if news:
                    yield b"".join(news)
        finally:
            self._count -= 1
            listener.leave()


class Listener:
    """What one listener has been told so far."""

    def __init__(self, cluster: Cluster, seen: Seen) -> None:
        self._cluster = cluster
        self.seen = seen
        self._view: View | None = None
        self._jobs: deque[Any] = deque(maxlen=QUEUED)
        self._told: dict[str, int] = {}
        self._cycle = -1
        self._ok: bool | None = None

    def hello(self) -> bytes:
        try:
            self._follow()
            at = self._view.at if self._view is not None else ""
        except ApiError:
            at = ""
        return event("hello", {"at": at, "context": self._cluster.name})

    def leave(self) -> None:
        if self._view is not None:
            self._view.lately.leave(self._jobs)

    def news(self) -> list[bytes]:
        health, _ = self._cluster.health()
        found: list[bytes] = []
        if health.ok != self._ok:
            if self._ok is not None:
                found.append(event("state", {"ok": health.ok, "message": health.message}))
            self._ok = health.ok
        try:
            fresh = self._follow()
        except ApiError:
            return found
        assert self._view is not None
        versions = _versions(self._view)
        topics = [topic for topic, version in versions.items() if self._told.get(topic) != version]
        self._told = versions
        if fresh:
            topics = list(versions)
        if topics:
            found.append(event("changed", {"topics": ["overview", *topics]}))
        found += self._cycles(self._view)
        found += self._lives()
        return found

    def _follow(self) -> bool:
        """Listens to the present boards; whether these are new."""
        view = self._cluster.view()
        if view is self._view:
            return False
        self.leave()
        self._view = view
        self._told = _versions(view)
        view.lately.listen(self._jobs)
        return True

    def _cycles(self, view: View) -> list[bytes]:
        last = view.inside.sight.cycle if view.inside is not None else None
        if last is None or last.number == self._cycle:
            return []
        first, self._cycle = self._cycle < 0, last.number
        if first:
            return []
        said = {
            "number": last.number,
            "at": rfc3339(last.at_s),
            "seconds": sum(last.seconds.values()),
            "bound": last.bound,
            "nominated": last.nominated,
            "evicted": sum(last.evicted.values()),
        }
        return [event("cycle", said)]

    def _lives(self) -> list[bytes]:
        found: list[bytes] = []
        while self._jobs:
            told = self._jobs.popleft()
            if self.seen is not None and told.namespace not in self.seen:
                continue
            said = {
                "at": rfc3339(told.at_s),
                "namespace": told.namespace,
                "kind": told.kind,
                "name": told.name,
                "queue": told.queue,
                "what": told.what,
                "reason": told.reason,
                "message": told.message,
            }
            found.append(event("job", said))
        return found


def _versions(view: View) -> dict[str, int]:
    made = {
        "queues": view.queues_version,
        "nodes": view.nodes.version,
        "jobs": view.jobs.version,
    }
    if view.inside is not None:
        made["decisions"] = view.inside.sight.decisions.count
    return made


def event(name: str, data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))

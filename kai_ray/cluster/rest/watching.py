"""Watches: one JSON object a line for as long as the client listens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from kai_ray.cluster.clock import Clock
from kai_ray.cluster.memory import MemoryStore
from kai_ray.cluster.memory.log import Watcher
from kai_ray.cluster.port import ApiError, BadRequest, Invalid, Object, WatchEvent

from .answers import Form, status_of
from .call import Call, Target
from .tables import partial, table

DEFAULT_S = 1800
LONGEST_S = 24 * 3600
EVENTS_AT_ONCE = 500
#: How often an idle stream is looked at for a bookmark.
IDLE_S = 5.0
#: The store's watches give a bookmark only to a reader that is willing to wait, however shortly.
A_MOMENT_S = 1e-6

Present = Callable[[WatchEvent], Any]


def open_watch(store: MemoryStore, call: Call, target: Target, form: Form) -> WatchAnswer:
    """Starts the watch that the query asks for. Raises ApiError (Gone among them) at once."""
    initial = call.flag("sendInitialEvents")
    match = call.query.get("resourceVersionMatch", "")
    if "sendInitialEvents" in call.query and match != "NotOlderThan":
        raise Invalid(
            'resourceVersionMatch: "NotOlderThan" is required where sendInitialEvents is set',
            details={"causes": [{"field": "resourceVersionMatch"}]},
        )
    if initial and not call.flag("allowWatchBookmarks"):
        raise BadRequest("sendInitialEvents needs allowWatchBookmarks=true")
    seconds = call.number("timeoutSeconds", DEFAULT_S)
    if seconds < 0:
        raise BadRequest("query parameter timeoutSeconds must not be negative")
    fields = call.query.get("fieldSelector", "")
    if target.name:
        fields = ",".join(filter(None, (fields, f"metadata.name={target.name}")))
    bell = Bell()
    watcher = store.watch(
        target.resource,
        target.namespace,
        resource_version="" if initial else call.query.get("resourceVersion", ""),
        labels=call.query.get("labelSelector", ""),
        fields=fields,
        on_event=bell.ring,
        bookmarks=call.flag("allowWatchBookmarks"),
        initial_events=(initial if "sendInitialEvents" in call.query else None),
    )
    present = presenter(target, form, call.query.get("includeObject", "Metadata"), store.clock)
    return WatchAnswer(watcher, bell, present, min(seconds or DEFAULT_S, LONGEST_S))


class Bell:
    """Wakes the stream's coroutine from whatever thread changed the store."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def ring(self) -> None:
        # Called from inside a write: a server that stops meanwhile must not make it fail.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return
        finally:
            self._event.clear()


class WatchAnswer:
    """The streaming response. Ends at its time, when the client goes, or when the server stops."""

    def __init__(self, watcher: Watcher, bell: Bell, present: Present, seconds: float) -> None:
        self._watcher = watcher
        self._bell = bell
        self._present = present
        self._seconds = seconds
        self._over = False

    def end(self) -> None:
        """Ends the stream soon, in good order."""
        self._over = True
        self._bell.ring()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [
                    (b"content-type", b"application/json"),
                    (b"cache-control", b"no-cache, private"),
                ],
            }
        )
        # The head goes out at once: clients take it as "the watch is on".
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        listener = asyncio.ensure_future(self._listen(receive))
        try:
            await self._stream(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            listener.cancel()
            self._watcher.close()

    async def _listen(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end()

    async def _stream(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        while not self._over and not self._watcher.closed:
            lines, last = self._take()
            if lines:
                body = b"\n".join(lines) + b"\n"
                await send({"type": "http.response.body", "body": body, "more_body": True})
            if last or loop.time() >= end:
                return
            if len(lines) < EVENTS_AT_ONCE:
                await self._bell.wait(max(0.0, min(IDLE_S, end - loop.time())))

    def _take(self) -> tuple[list[bytes], bool]:
        """Lines ready to be sent, and whether the stream ends with them."""
        lines: list[bytes] = []
        try:
            while len(lines) < EVENTS_AT_ONCE:
                event = self._watcher.next(0.0) or self._watcher.next(A_MOMENT_S)
                if event is None:
                    return lines, False
                lines.append(_line(event.type, self._present(event)))
        except ApiError as error:
            lines.append(_line("ERROR", status_of(error)))
            return lines, True
        return lines, False


def presenter(target: Target, form: Form, include: str, clock: Clock) -> Present:
    """How the objects of a watch are shown: as they are, as tables of one row, or as metadata."""
    if form.kind == "object":
        return lambda event: event.object
    if form.kind == "metadata":
        return lambda event: partial(event.object)
    told = False

    def as_table(event: WatchEvent) -> Object:
        nonlocal told
        shown = table(
            target.served,
            [] if event.type == "BOOKMARK" else [event.object],
            clock.now(),
            include=include if include in ("None", "Object") else "Metadata",
            metadata=event.object["metadata"] if event.type == "BOOKMARK" else None,
            with_columns=not told,
            version=form.version,
        )
        told = True
        return shown

    return as_table


def _line(kind: str, obj: Any) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj})

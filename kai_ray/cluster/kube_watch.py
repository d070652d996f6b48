"""A watch over HTTP: a reader thread that keeps the stream open and hands over its events.

The server ends every watch now and then, and connections break; the reader opens the next stream
where the last one ended, so that the taker sees one unbroken sequence. Only what it cannot mend
comes out of `next`: Gone (list again), or a refusal such as Forbidden.

A stream says nothing while nothing changes, and a server sends no bookmark that says nothing new,
so silence alone does not tell a quiet kind from a dead connection. Therefore streams are short:
when one is over after `STREAM_PART` of the silence that is allowed, the server has to accept the
next one where the last one ended, which it does only while its own cache is kept up to date.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from .clock import steady_s
from .informer import INITIAL_END
from .kube_http import Transport, error_of_status, shut
from .kube_lean import Decode
from .port import ApiError, Gone, TooManyRequests, Unavailable, WatchEvent

log = logging.getLogger(__name__)

SILENCE_S = 120.0  # no bookmark and no event for so long: the connection is taken for dead
STREAM_PART = (0.5, 0.6)  # of the silence: for so long the server is asked to keep a stream
SHORTEST_STREAM_S = 4
WAITING_LIMIT = 20_000  # events not taken yet; beyond it the reader stops reading
_LATE_S = 1.0  # a stream may end so much later than it was asked to
BACKOFF_FIRST_S = 0.1
BACKOFF_LAST_S = 5.0


class HttpWatch:
    """One watch. The first stream is open when the constructor returns.

    `initial`: begin with all that is there, then the bookmark INITIAL_END. `silence_s`: a stream
    that says nothing for so long is dropped and opened anew.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        query: dict[str, str],
        resource_version: str,
        on_event: Callable[[], None] | None,
        *,
        initial: bool = False,
        silence_s: float = SILENCE_S,
        decode: Decode = msgspec.json.decode,
    ) -> None:
        self._transport = transport
        self._path = path
        self._query = query
        self._version = resource_version
        self._on_event = on_event
        self._initial = initial  # the state is still arriving: nothing says how far it has come
        self._silence_s = silence_s
        self._decode = decode
        self._heard_s = self._over_s = steady_s()
        self._changed = threading.Condition()
        self._events: deque[WatchEvent] = deque()
        self._failure: ApiError | None = None
        self._closed = False
        self._response: urllib3.BaseHTTPResponse | None = None
        try:
            self._response = self._open()
        except Gone as gone:
            self._failure = gone
            return
        self._reader = threading.Thread(target=self._read, name=f"watch {path}", daemon=True)
        self._reader.start()

    def next(self, timeout_s: float = 0.0) -> WatchEvent | None:
        with self._changed:
            if timeout_s > 0:
                self._changed.wait_for(
                    lambda: self._events or self._failure or self._closed, timeout_s
                )
            if self._events:
                event = self._events.popleft()
                if len(self._events) == WAITING_LIMIT - 1:
                    self._changed.notify_all()
                return event
            if self._failure is not None:
                raise self._failure
            return None

    def silent_s(self) -> float:
        return steady_s() - self._heard_s

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._response is not None:
            shut(self._response)

    def _open(self) -> urllib3.BaseHTTPResponse:
        stream_s = self._silence_s * random.uniform(*STREAM_PART)
        query = self._query | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(SHORTEST_STREAM_S, round(stream_s))),
        }
        if self._initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        elif self._version:
            query["resourceVersion"] = self._version
        opened = self._transport.stream(self._path, query, self._silence_s)
        self._heard_s = steady_s()
        self._over_s = self._heard_s + stream_s + _LATE_S
        return opened

    def _read(self) -> None:
        failures = 0
        while not self._closed:
            try:
                if self._response is None:
                    self._response = self._open()
                    if self._closed:  # closed while connecting: `close` has not seen this stream
                        shut(self._response)
                for line in _lines(self._response):
                    failures = 0
                    if line.strip():
                        self._take(line)
            except (HTTPError, OSError, ValueError, Unavailable, TooManyRequests) as error:
                failures += 1
                log.debug("watch %s broke: %s", self._path, error)
            except ApiError as error:
                self._fail(error)
                return
            self._drop_stream()
            if self._closed:
                return
            if self._initial or not self._version:
                # Nothing says where the stream ended, so a new one could miss or repeat events.
                self._fail(Gone("the watch ended before it had a resource version"))
                return
            with self._changed:
                self._changed.wait_for(lambda: self._closed, _pause_s(failures))

    def _drop_stream(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    def _take(self, line: bytes) -> None:
        try:
            said = _LINE.decode(line)
            raw = bytes(said.object)
            if said.type == "ERROR":
                raise error_of_status(msgspec.json.decode(raw))
            obj = self._decode(raw)
            meta: dict[str, Any] = obj["metadata"]
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise Unavailable(f"a line of the watch {self._path} is not an event") from error
        if not self._initial or said.type == "BOOKMARK":
            self._version = meta.get("resourceVersion") or self._version
        with self._changed:
            self._changed.wait_for(lambda: len(self._events) < WAITING_LIMIT or self._closed)
            if said.type == "BOOKMARK" and (meta.get("annotations") or {}).get(INITIAL_END):
                self._initial = False
            if (
                steady_s() < self._over_s
            ):  # else we slept: this has waited for us who knows how long
                self._heard_s = steady_s()
            self._events.append(WatchEvent(said.type, obj))  # pyright: ignore[reportArgumentType]
            self._changed.notify_all()
        if self._on_event is not None:
            self._on_event()

    def _fail(self, error: ApiError) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()
        if self._on_event is not None:
            self._on_event()


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_LINE = msgspec.json.Decoder(_Line)


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """The lines of a body as they arrive; an unfinished last line is dropped."""
    rest: list[bytes] = []
    for chunk in response.stream(65536):
        first, *others = chunk.split(b"\n")
        rest.append(first)
        if others:
            yield b"".join(rest)
            yield from others[:-1]
            rest = [others[-1]]


def _pause_s(failures: int) -> float:
    if not failures:
        return 0.0
    return min(BACKOFF_LAST_S, BACKOFF_FIRST_S * 2**failures) * random.uniform(0.5, 1.0)

"""Bringing messages to webhooks, in threads of their own: who hands one over never waits.

Each target has a lane: bounded, in order, one request at a time, with back-off. What comes in while
a target is slow goes out together. A target that hangs costs one worker until the deadline, and
others go first after that; one worker serves the operator's channels only, so that addresses in
annotations of jobs, however many, cannot keep those waiting.
"""

from __future__ import annotations

import logging
import random
import ssl
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kai_ray.cluster.clock import steady_s
from kai_ray.sight.notify import message as words
from kai_ray.sight.notify.address import Address, AddressError, judged, label, places
from kai_ray.sight.notify.config import NotifyConfig
from kai_ray.sight.notify.message import Message
from kai_ray.sight.notify.post import Answer, PostError, post

log = logging.getLogger(__name__)

_LARGEST_URL_FILE = 4096
#: Answers after which the same request may do better.
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})

Post = Callable[[Address, Sequence[str], bytes, float, ssl.SSLContext | None], Answer]


@dataclass(frozen=True, slots=True)
class Limits:
    """How long is tried, and how much is kept meanwhile."""

    deadline_s: float = 10.0
    first_retry_s: float = 1.0
    last_retry_s: float = 300.0
    keep_s: float = 3600.0
    """A message that could not be brought for so long is given up."""
    lane: int = 500
    lanes: int = 1000
    workers: int = 4
    """At least 2: the first serves channels only."""


@dataclass(frozen=True, slots=True)
class DeliveryFigures:
    """Messages since the start, but `waiting`: those on their way now."""

    sent: int = 0
    retried: int = 0
    """Requests that failed and were tried again."""
    refused: int = 0
    """Not sent: the target is not allowed, unknown, or wants no more of it."""
    expired: int = 0
    """Not sent: given up after an hour of trying."""
    dropped: int = 0
    """Not sent: too many were waiting."""
    waiting: int = 0
    problems: tuple[tuple[str, str], ...] = ()
    """(channel or host, what is wrong) of targets that fail at present."""


#: When it was handed over, and what.
_Entry = tuple[float, Message]


@dataclass(slots=True)
class _Lane:
    target: str
    queue: deque[_Entry] = field(default_factory=deque)
    flying: list[_Entry] = field(default_factory=list)
    due_s: float = 0.0
    failures: int = 0
    problem: str = ""

    @property
    def waiting(self) -> int:
        return len(self.queue) + len(self.flying)


class Delivery:
    """`send` from any thread; the workers start with the first message."""

    def __init__(
        self, config: NotifyConfig, limits: Limits | None = None, send: Post = post
    ) -> None:
        self.config = config
        self.limits = limits or Limits()
        self._post = send
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._stopping = False
        self._count = dict.fromkeys(("sent", "retried", "refused", "expired", "dropped"), 0)
        self._tls: ssl.SSLContext | None = None

    def send(self, target: str, message: Message) -> None:
        """Takes a message for a channel or an address; never waits, never fails."""
        with self._changed:
            if self._stopping:
                return
            lane = self._lanes.get(target) or self._new_lane(target)
            if lane is None:
                self._count["dropped"] += 1
                return
            lane.queue.append((steady_s(), message))
            self._trim(lane)
            self._start()
            self._changed.notify_all()

    def figures(self) -> DeliveryFigures:
        with self._changed:
            waiting = sum(lane.waiting for lane in self._lanes.values())
            problems = [(_label(a.target), a.problem) for a in self._lanes.values() if a.problem]
            return DeliveryFigures(**self._count, waiting=waiting, problems=tuple(sorted(problems)))

    def stop(self, grace_s: float = 2.0) -> None:
        """Ends the workers; what is due has `grace_s` to go out. May be called twice."""
        end_s = steady_s() + grace_s
        with self._changed:
            while self._threads and steady_s() < end_s and any(map(_at_once, self._lanes.values())):
                self._changed.wait(max(0.0, end_s - steady_s()))
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=max(0.0, end_s - steady_s()) + 0.1)
        self._threads = []

    # ------------------------------------------------------------------ lanes

    def _new_lane(self, target: str) -> _Lane | None:
        if len(self._lanes) >= self.limits.lanes:
            empty = next((t for t, lane in self._lanes.items() if not lane.waiting), None)
            if empty is None:
                return None
            del self._lanes[empty]
        lane = self._lanes[target] = _Lane(target)
        return lane

    def _trim(self, lane: _Lane) -> None:
        """The newest stay."""
        while lane.queue and lane.waiting > self.limits.lane:
            lane.queue.popleft()
            self._count["dropped"] += 1

    def _start(self) -> None:
        if self._threads:
            return
        for number in range(max(2, self.limits.workers)):
            thread = threading.Thread(
                target=self._work, args=(number == 0,), name=f"kai-notify-{number}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _work(self, channels_only: bool) -> None:
        while True:
            with self._changed:
                lane = None
                while lane is None:
                    if self._stopping:
                        return
                    lane, wait_s = self._next(channels_only)
                    if lane is None:
                        self._changed.wait(wait_s)
                while lane.queue and len(lane.flying) < words.MOST_AT_ONCE:
                    lane.flying.append(lane.queue.popleft())
            self._bring(lane)

    def _next(self, channels_only: bool) -> tuple[_Lane | None, float | None]:
        """The lane to serve now, or how long there is none; None: until something comes."""
        now_s = steady_s()
        best: tuple[tuple[bool, int, float], _Lane] | None = None
        soonest: float | None = None
        for lane in self._lanes.values():
            self._expire(lane, now_s)
            if not lane.queue or lane.flying or (channels_only and "://" in lane.target):
                continue
            if lane.due_s > now_s:
                soonest = lane.due_s if soonest is None else min(soonest, lane.due_s)
                continue
            order = ("://" in lane.target, lane.failures, lane.due_s)
            if best is None or order < best[0]:
                best = (order, lane)
        if best is not None:
            return best[1], 0.0
        return None, None if soonest is None else soonest - now_s

    def _expire(self, lane: _Lane, now_s: float) -> None:
        while lane.queue and lane.queue[0][0] + self.limits.keep_s < now_s:
            lane.queue.popleft()
            self._count["expired"] += 1

    # ------------------------------------------------------------------ one request

    def _bring(self, lane: _Lane) -> None:
        final, problem, retry_s = False, "", None
        try:
            address = self._address(lane.target)
            payload = words.body([m for _, m in lane.flying], self.config.console)
            reached = places(address)
            answer = self._post(
                address, reached, payload, self.limits.deadline_s, self._context(address)
            )
            if not 200 <= answer.status < 300:
                final = answer.status not in _AGAIN
                retry_s = answer.retry_after_s
                said = " ".join(answer.text.split())[:120]
                problem = f"answers {answer.status}" + (f" ({said})" if said else "")
        except AddressError as error:
            final, problem = True, str(error)
        except (PostError, OSError) as error:
            problem = str(error) or repr(error)
        except Exception as error:  # a worker outlives whatever a webhook does
            log.exception("a notification could not be sent")
            final, problem = True, repr(error)
        self._note(lane, final, problem, retry_s)

    def _note(self, lane: _Lane, final: bool, problem: str, retry_s: float | None) -> None:
        if problem and problem != lane.problem:
            log.warning("notifications to %s: %s", _label(lane.target), problem)
        with self._changed:
            lane.problem = problem
            if not problem or final:
                lane.failures, lane.due_s = 0, 0.0
                self._count["refused" if problem else "sent"] += len(lane.flying)
            else:
                self._count["retried"] += 1
                lane.failures += 1
                lane.due_s = steady_s() + self._pause_s(lane.failures, retry_s)
                lane.queue.extendleft(reversed(lane.flying))
            lane.flying = []
            self._trim(lane)
            self._changed.notify_all()

    def _pause_s(self, failures: int, retry_s: float | None) -> float:
        limits = self.limits
        pause = min(limits.first_retry_s * 2 ** min(failures - 1, 30), limits.last_retry_s)
        pause *= 0.75 + random.random() / 2  # many lanes to one host do not come back together
        return pause if retry_s is None else max(retry_s, pause)

    def _address(self, target: str) -> Address:
        if "://" in target:
            if not self.config.addresses:
                raise AddressError("addresses are not allowed here: name a channel")
            return judged(target, self.config.hosts)
        channel = self.config.channels.get(target)
        if channel is None:
            known = ", ".join(sorted(self.config.channels)) or "none"
            raise AddressError(f"channel {target!r} is not configured (configured: {known})")
        url = channel.url or _first_line(channel.url_file)
        return judged(url, vouched=True)

    def _context(self, address: Address) -> ssl.SSLContext | None:
        if address.scheme != "https":
            return None
        if self._tls is None:
            self._tls = ssl.create_default_context()
            if self.config.ca_file:
                self._tls.load_verify_locations(self.config.ca_file)
        return self._tls


def _at_once(lane: _Lane) -> bool:
    """Whether it has something to bring that is not waiting for a retry."""
    return lane.waiting > 0 and lane.failures == 0


def _first_line(path: str) -> str:
    with Path(path).open("rb") as file:
        return file.read(_LARGEST_URL_FILE).decode("utf-8", "replace").strip().partition("\n")[0]


def _label(target: str) -> str:
    return label(target) if "://" in target else target

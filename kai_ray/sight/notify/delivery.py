"""Bringing messages to webhooks, in threads of their own: who hands one over never waits.

A target that hangs costs one worker until the deadline, and others go first after that; one worker
serves the operator's channels only, so that addresses in annotations of jobs, however many, cannot
keep those waiting. What comes in while a target is slow goes out together.
"""

from __future__ import annotations

import logging
import random
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kai_ray.cluster.clock import steady_s
from kai_ray.sight.notify import message as words
from kai_ray.sight.notify.address import Address, AddressError, judged, label, places
from kai_ray.sight.notify.config import NotifyConfig
from kai_ray.sight.notify.lanes import Lane, Lanes, Limits
from kai_ray.sight.notify.message import Message
from kai_ray.sight.notify.outbox import Outbox, Parcel
from kai_ray.sight.notify.post import Answer, PostError, post

log = logging.getLogger(__name__)

_LARGEST_URL_FILE = 4096
#: Answers after which the same request may do better.
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})

Post = Callable[[Address, Sequence[str], bytes, float, ssl.SSLContext | None], Answer]


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


class Delivery:
    """`send` from any thread; the workers start with the first message.

    `outbox` keeps what is on its way; what is in it goes out after `resume`.
    """

    def __init__(
        self,
        config: NotifyConfig,
        limits: Limits | None = None,
        send: Post = post,
        outbox: Outbox | None = None,
    ) -> None:
        self.config = config
        self.limits = limits or Limits()
        self._post = send
        self._outbox = outbox
        self._lanes = Lanes(self.limits, config.channels)
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._stopping = False
        self._sent = self._retried = self._refused = 0
        self._tls: ssl.SSLContext | None = None
        self._unsaved = False
        self._saved_s = 0.0
        self._saving = threading.Lock()

    def send(self, target: str, message: Message) -> None:
        """Takes a message for a channel or an address; never waits, never fails."""
        self._take(target, message, steady_s())

    def resume(self) -> None:
        """Goes on with what the process before has left."""
        parcels = self._outbox.load() if self._outbox is not None else []
        for parcel in parcels:
            age_s = max(0.0, time.time() - parcel.made_s)
            self._take(parcel.target, parcel.message, steady_s() - age_s)

    def figures(self) -> DeliveryFigures:
        with self._changed:
            problems = {(_label(lane.target), lane.problem) for lane in self._lanes if lane.problem}
            return DeliveryFigures(
                sent=self._sent,
                retried=self._retried,
                refused=self._refused,
                expired=self._lanes.expired,
                dropped=self._lanes.dropped,
                waiting=self._lanes.waiting,
                problems=tuple(sorted(problems)),
            )

    def stop(self, grace_s: float = 2.0) -> None:
        """Ends the workers; what is due has `grace_s` to go out. May be called twice."""
        end_s = steady_s() + grace_s
        with self._changed:
            while self._threads and steady_s() < end_s and any(map(_may_go_out, self._lanes)):
                self._changed.wait(max(0.0, end_s - steady_s()))
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=max(0.0, end_s - steady_s()) + 0.1)
        self._threads = []
        if self._unsaved:
            self._save()

    def _take(self, target: str, message: Message, at_s: float) -> None:
        with self._changed:
            if self._stopping:
                return
            self._lanes.add(target, (at_s, message))
            self._unsaved = True
            self._start()
            self._changed.notify_all()

    # ------------------------------------------------------------------ workers

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
        while not self._stopping:
            lane = self._wait(channels_only)
            if lane is not None:
                self._bring(lane)
            if self._save_in_s() == 0.0 and not self._stopping:  # then the file may be another's
                self._save()

    def _wait(self, channels_only: bool) -> Lane | None:
        """The lane to serve, its messages taken; None: there may be one now, or a file to write."""
        with self._changed:
            lane, wait_s = self._lanes.next(steady_s(), channels_only=channels_only)
            if lane is not None:
                self._lanes.take_off(lane)
                return lane
            waits = [w for w in (wait_s, self._save_in_s()) if w is not None]
            if not self._stopping and 0.0 not in waits:
                self._changed.wait(min(waits, default=None))
            return None

    # ------------------------------------------------------------------ what is kept

    def _save_in_s(self) -> float | None:
        """Until it is time to; None: there is nothing new."""
        if self._outbox is None or not self._unsaved:
            return None
        return max(0.0, self._saved_s + self.limits.save_s - steady_s())

    def _save(self) -> None:
        """Never two at a time."""
        if self._outbox is None or not self._saving.acquire(blocking=self._stopping):
            return
        try:
            with self._changed:
                self._unsaved, self._saved_s = False, steady_s()
                ahead_s = time.time() - self._saved_s
                parcels = [
                    Parcel(lane.target, at_s + ahead_s, message)
                    for lane in self._lanes
                    for at_s, message in (*lane.flying, *lane.queue)
                ]
            self._outbox.save(parcels)
        finally:
            self._saving.release()

    # ------------------------------------------------------------------ one request

    def _bring(self, lane: Lane) -> None:
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

    def _note(self, lane: Lane, final: bool, problem: str, retry_s: float | None) -> None:
        if problem and problem != lane.problem:
            log.warning("notifications to %s: %s", _label(lane.target), problem)
        with self._changed:
            lane.problem = problem
            if not problem:
                self._sent += self._lanes.land(lane)
            elif final:
                self._refused += self._lanes.land(lane)
            else:
                self._retried += 1
                lane.failures += 1
                due_s = steady_s() + self._pause_s(lane.failures, retry_s)
                self._lanes.turn_back(lane, due_s)
            self._unsaved = True
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
            made = ssl.create_default_context()
            if self.config.ca_file:
                made.load_verify_locations(self.config.ca_file)
            self._tls = made
        return self._tls


def _may_go_out(lane: Lane) -> bool:
    """Whether it has something to bring that is not waiting for a retry."""
    return lane.waiting > 0 and lane.failures == 0


def _first_line(path: str) -> str:
    with Path(path).open("rb") as file:
        return file.read(_LARGEST_URL_FILE).decode("utf-8", "replace").strip().partition("\n")[0]


def _label(target: str) -> str:
    return label(target) if "://" in target else target

"""What is on its way to each target: bounded, in order, one request at a time. Plain data.

Who uses it holds a lock. All times are steady seconds.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from kai_ray.sight.notify import message as words
from kai_ray.sight.notify.message import Message


@dataclass(frozen=True, slots=True)
class Limits:
    """How long is tried, and how much is kept meanwhile."""

    deadline_s: float = 10.0
    first_retry_s: float = 1.0
    last_retry_s: float = 300.0
    keep_s: float = 3600.0
    """A message that could not be brought for so long is given up."""
    lane: int = 500
    """Messages for one target."""
    lanes: int = 1000
    """Targets."""
    messages: int = 10_000
    """Messages for all targets."""
    save_s: float = 1.0
    """The file of what is on its way is not written more often."""
    workers: int = 4
    """At least 2: the first serves channels only."""


#: When it was handed over, and what.
Entry = tuple[float, Message]


@dataclass(slots=True)
class Lane:
    target: str
    queue: deque[Entry] = field(default_factory=deque)
    flying: list[Entry] = field(default_factory=list)
    due_s: float = 0.0
    failures: int = 0
    problem: str = ""

    @property
    def waiting(self) -> int:
        return len(self.queue) + len(self.flying)

    @property
    def is_address(self) -> bool:
        """Not a channel of the operator's."""
        return "://" in self.target


class Lanes:
    """`channels`: targets that the operator has configured. What others ask for takes no room from
    them: the limits of all targets together do not hold for channels."""

    def __init__(self, limits: Limits, channels: Container[str] = ()) -> None:
        self._limits = limits
        self._channels = channels
        self._lanes: OrderedDict[str, Lane] = OrderedDict()
        self.waiting = 0
        self.dropped = 0
        self.expired = 0

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes.values())

    def add(self, target: str, entry: Entry) -> None:
        """At the end of its lane; where there is too much, the oldest of the lane goes."""
        lane = self._lanes.get(target) or self._new(target)
        if lane is None:
            self.dropped += 1
            return
        lane.queue.append(entry)
        self.waiting += 1
        self._trim(lane)

    def next(self, now_s: float, *, channels_only: bool) -> tuple[Lane | None, float | None]:
        """The lane to serve now, or how long there is none (None: until something comes).

        Channels go before addresses, and what works before what fails.
        """
        best: tuple[tuple[bool, int, float], Lane] | None = None
        soonest: float | None = None
        for lane in self._lanes.values():
            self._expire(lane, now_s)
            if not lane.queue or lane.flying or (channels_only and lane.is_address):
                continue
            if lane.due_s > now_s:
                soonest = lane.due_s if soonest is None else min(soonest, lane.due_s)
                continue
            order = (lane.is_address, lane.failures, lane.due_s)
            if best is None or order < best[0]:
                best = (order, lane)
        if best is not None:
            return best[1], 0.0
        return None, None if soonest is None else soonest - now_s

    def take_off(self, lane: Lane) -> None:
        """The first messages of the lane go out as one."""
        while lane.queue and len(lane.flying) < words.MOST_AT_ONCE:
            lane.flying.append(lane.queue.popleft())

    def land(self, lane: Lane) -> int:
        """They are done with; how many they were."""
        count = len(lane.flying)
        lane.flying, lane.failures, lane.due_s = [], 0, 0.0
        self.waiting -= count
        return count

    def turn_back(self, lane: Lane, due_s: float) -> None:
        """They are tried again, not before `due_s`."""
        lane.queue.extendleft(reversed(lane.flying))
        lane.flying, lane.due_s = [], due_s
        self._trim(lane)

    def _new(self, target: str) -> Lane | None:
        if len(self._lanes) >= self._limits.lanes and target not in self._channels:
            empty = next((t for t, lane in self._lanes.items() if not lane.waiting), None)
            if empty is None:
                return None
            del self._lanes[empty]
        lane = self._lanes[target] = Lane(target)
        return lane

    def _trim(self, lane: Lane) -> None:
        limits = self._limits
        most = limits.messages if lane.target not in self._channels else self.waiting
        while lane.queue and (lane.waiting > limits.lane or self.waiting > most):
            lane.queue.popleft()
            self.waiting -= 1
            self.dropped += 1

    def _expire(self, lane: Lane, now_s: float) -> None:
        while lane.queue and lane.queue[0][0] + self._limits.keep_s < now_s:
            lane.queue.popleft()
            self.waiting -= 1
            self.expired += 1

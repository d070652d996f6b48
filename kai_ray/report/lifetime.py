"""A job's events put together to stretches of time: waited for this, ran there, left for whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kai_ray.history.job_event import JobEvent

Phase = Literal["waiting", "running", "suspended", "ended"]

_ORDER: tuple[Phase, ...] = ("running", "waiting", "suspended", "ended")
_STARTS = frozenset({"started", "resumed"})
_LEAVES = {"evicted": "Evicted", "interrupted": "Interrupted"}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Of the whole job: `reason` and `message` while it waits, `held` GPUs while it runs."""

    since_s: float
    until_s: float
    phase: Phase
    reason: str = ""
    message: str = ""
    asked: float = 0.0
    held: float = 0.0
    nodes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return self.until_s - self.since_s


@dataclass(frozen=True, slots=True)
class Departure:
    """It had to leave. `rule`: why, as a word; "Interrupted": by no decision of the scheduler."""

    at_s: float
    rule: str
    for_whom: str
    message: str


@dataclass(slots=True)
class _Gang:
    phase: Phase = "waiting"
    reason: str = ""
    message: str = ""
    asked: float = 0.0
    held: float = 0.0
    nodes: tuple[str, ...] = ()


@dataclass(slots=True)
class Lifetime:
    """`stretches` follow one another without gaps; two neighbours differ."""

    stretches: list[Stretch] = field(default_factory=list[Stretch])
    departures: list[Departure] = field(default_factory=list[Departure])
    warnings: list[tuple[float, str, str]] = field(default_factory=list[tuple[float, str, str]])
    """Moment, reason, message."""


def lifetime(events: Iterable[JobEvent], until_s: float) -> Lifetime:
    """Of one workload with all its gangs, up to `until_s`. O(events x gangs).

    What a restart has told again is passed over where it says nothing new; moments before the one
    that was seen last (a clock was set back) count as that one.
    """
    made, gangs = Lifetime(), dict[str, _Gang]()
    last_s: float | None = None
    for event in events:
        at_s = event.at_s if last_s is None else max(last_s, event.at_s)
        if last_s is not None:
            _add(made.stretches, _whole(gangs.values(), last_s, min(at_s, until_s)))
        last_s = at_s
        _take(made, gangs.setdefault(event.group, _Gang()), event, at_s)
    if last_s is not None:
        _add(made.stretches, _whole(gangs.values(), last_s, until_s))
    return made


def _take(made: Lifetime, gang: _Gang, event: JobEvent, at_s: float) -> None:
    what = event.what
    gang.asked = event.gpus or gang.asked
    if what in _STARTS:
        gang.phase, gang.reason, gang.message = "running", "", ""
    elif what == "waits":
        gang.phase, gang.reason, gang.message = "waiting", event.reason, event.message
    elif what in _LEAVES:
        if event.replayed and gang.phase == "waiting" and gang.reason == _LEAVES[what]:
            return
        rule = event.reason if what == "evicted" and event.reason else _LEAVES[what]
        made.departures.append(Departure(at_s, rule, event.for_whom, event.message))
        gang.phase, gang.reason, gang.message = "waiting", _LEAVES[what], event.message
    elif what == "suspended":
        gang.phase, gang.reason, gang.message = "suspended", event.reason, event.message
    elif what == "ended" or (what == "shrunk" and not event.pods):
        gang.phase, gang.reason, gang.message = "ended", event.reason, event.message
    elif what == "warned":
        made.warnings.append((at_s, event.reason, event.message))
    gang.held = event.held if gang.phase == "running" else 0.0
    if gang.phase == "running":
        gang.nodes = event.nodes or gang.nodes
    else:
        gang.nodes = ()


def _whole(gangs: Iterable[_Gang], since_s: float, until_s: float) -> Stretch:
    """The job runs if one of its gangs does; it waits if none runs and one waits."""
    order: dict[Phase, list[_Gang]] = {phase: [] for phase in _ORDER}
    for gang in gangs:
        order[gang.phase].append(gang)
    phase: Phase = next(p for p in _ORDER if order[p] or p == "ended")
    first = order[phase][0] if order[phase] else _Gang()
    live = order["running"] + order["waiting"]
    nodes = sorted({node for gang in order["running"] for node in gang.nodes})
    return Stretch(
        since_s,
        until_s,
        phase,
        "" if phase == "running" else first.reason,
        "" if phase == "running" else first.message,
        sum(gang.asked for gang in live),
        sum(gang.held for gang in order["running"]),
        tuple(nodes),
    )


def _add(stretches: list[Stretch], new: Stretch) -> None:
    if new.until_s <= new.since_s:
        return
    if stretches:
        old = stretches[-1]
        if (old.phase, old.reason, old.asked, old.held, old.nodes) == (
            (new.phase, new.reason, new.asked, new.held, new.nodes)
        ):
            stretches[-1] = Stretch(
                old.since_s,
                new.until_s,
                old.phase,
                old.reason,
                new.message or old.message,
                old.asked,
                old.held,
                old.nodes,
            )
            return
    stretches.append(new)


def runs(stretches: Sequence[Stretch]) -> list[list[Stretch]]:
    """The stretches of each time that it ran, from start to stop."""
    found: list[list[Stretch]] = []
    before: Stretch | None = None
    for stretch in stretches:
        if stretch.phase == "running":
            if before is None or before.phase != "running":
                found.append([])
            found[-1].append(stretch)
        before = stretch
    return found

"""The answer to "why does it wait?", as data for people and programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Nearest:
    """The node that came closest, and what it lacks."""

    node: str
    missing: dict[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class QueueExplanation:
    name: str
    allocated: dict[str, str]
    quota: dict[str, str]  # "unlimited" where there is none
    limit: dict[str, str]
    refuses: str = ""  # the reason word if the queue is what stands in the way


@dataclass(frozen=True, slots=True)
class GangExplanation:
    """One gang. `state`: Waiting, Starting (fits now), Running, Growing, Finished, Empty."""

    name: str
    namespace: str
    state: str
    reason: str
    sentence: str
    reasons: dict[str, int] = field(default_factory=dict[str, int])  # nodes per reason word
    nearest: Nearest | None = None
    queue: QueueExplanation | None = None
    behind: tuple[str, ...] = ()
    wanted: int = 0
    placeable: int = 0
    evicted: str = ""  # for whom and by which rule it had to leave, if it has not started since
    protected: str = ""  # who may not be evicted for it yet, by minimum runtime
    notice: str = ""  # why and by when it has to leave, while it still runs
    set_aside: tuple[str, ...] = ()  # devices that nobody gets, and why
    waits_for: str = ""  # whose pods leave for it, and until when their room is kept


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of one workload; the properties speak of the gang that matters most."""

    kind: str
    name: str
    namespace: str
    sentence: str
    gangs: tuple[GangExplanation, ...] = ()

    @property
    def reasons(self) -> dict[str, int]:
        return self._first.reasons if self._first else {}

    @property
    def nearest(self) -> Nearest | None:
        return self._first.nearest if self._first else None

    @property
    def queue(self) -> QueueExplanation | None:
        return self._first.queue if self._first else None

    @property
    def behind(self) -> tuple[str, ...]:
        return self._first.behind if self._first else ()

    @property
    def _first(self) -> GangExplanation | None:
        waiting = [g for g in self.gangs if g.state == "Waiting"]
        return (waiting or list(self.gangs) or [None])[0]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

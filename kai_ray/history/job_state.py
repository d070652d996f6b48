"""One job as the history knows it: what has happened to it so far, and what it has cost."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: (product of the GPUs, pool of their nodes)
Type = tuple[str, str]
WAITING, RUNNING, SUSPENDED, ENDED = "waiting", "running", "suspended", "ended"


class Holding(NamedTuple):
    """What one gang asks for and holds. `types`: (product, node pool, GPUs)."""

    asked: float = 0.0
    held: float = 0.0
    types: tuple[tuple[str, str, float], ...] = ()

    def by_type(self) -> tuple[tuple[str, str, float], ...]:
        if self.types or not self.held:
            return self.types
        return (("", "", self.held),)


@dataclass(slots=True)
class JobState:
    """A row of the table `jobs`."""

    id: int
    uid: str
    namespace: str = ""
    name: str = ""
    kind: str = ""
    api_version: str = ""
    queue: str = ""
    user: str = ""
    pool: str = ""
    group: str = ""  # its first PodGroup
    state: str = WAITING
    state_s: float = 0.0
    outcome: str = ""
    reason: str = ""
    message: str = ""
    gpus: float = 0.0
    created_s: float = 0.0
    started_s: float | None = None
    ended_s: float | None = None
    waited_s: float = 0.0
    ran_s: float = 0.0
    starts: int = 0
    evictions: int = 0
    interruptions: int = 0
    counted_s: float = 0.0
    held: dict[Type, float] = field(default_factory=dict[Type, float])
    used_gpu_s: float = 0.0
    known_gpu_s: float = 0.0
    holding: dict[str, Holding] = field(default_factory=dict[str, Holding])
    last_s: float = 0.0

    @property
    def live(self) -> bool:
        return self.state != ENDED

    @property
    def holds(self) -> float:
        return sum((h.held for h in self.holding.values()), 0.0)

    def enter(self, state: str, at_s: float) -> None:
        """Another state; the time in the one before is added up."""
        if state == self.state:
            return
        lasted = max(0.0, at_s - self.state_s)
        if self.state == WAITING:
            self.waited_s += lasted
        elif self.state == RUNNING:
            self.ran_s += lasted
        self.state, self.state_s = state, at_s

    def row(self) -> tuple[Any, ...]:
        """In the order of `COLUMNS`."""
        values = [getattr(self, name) for name in COLUMNS]
        values[_HELD] = json.dumps([[*slot, round(s, 3)] for slot, s in self.held.items()])
        values[_HOLDING] = json.dumps(
            {g: [h.asked, h.held, h.types] for g, h in self.holding.items()}
        )
        return tuple(values)


#: Of the table, in its order.
COLUMNS = (
    "id", "uid", "namespace", "name", "kind", "api_version", "queue", "user", "pool", "group",
    "state",
    "state_s", "outcome", "reason", "message", "gpus", "created_s", "started_s", "ended_s",
    "waited_s", "ran_s", "starts", "evictions", "interruptions", "counted_s", "held", "used_gpu_s",
    "known_gpu_s", "holding", "last_s",
)  # fmt: skip
_HELD, _HOLDING = COLUMNS.index("held"), COLUMNS.index("holding")
_STORED = ", ".join("grp" if name == "group" else name for name in COLUMNS)
SELECT = f"SELECT {_STORED} FROM jobs"
PUT = f"INSERT OR REPLACE INTO jobs ({_STORED}) VALUES ({','.join('?' * len(COLUMNS))})"


def job_of(row: tuple[Any, ...]) -> JobState:
    """From a row of `SELECT`."""
    values = list(row)
    values[_HELD] = {(p, n): float(s) for p, n, s in json.loads(row[_HELD])}
    values[_HOLDING] = {
        g: Holding(asked, held, tuple((p, n, float(x)) for p, n, x in types))
        for g, (asked, held, types) in json.loads(row[_HOLDING]).items()
    }
    return JobState(*values)

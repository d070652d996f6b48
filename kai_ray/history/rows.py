"""What readers of the history get: plain records and columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job. Times are seconds since 1970; a job that lives is counted up to now."""

    uid: str
    namespace: str
    name: str
    kind: str
    api_version: str
    queue: str
    user: str
    pool: str  # of the scheduler
    state: str  # waiting, running, suspended, ended
    outcome: str  # Succeeded, Failed, Deleted; "" before the end
    reason: str  # why it waits
    message: str
    gpus: float  # asked for
    created_s: float
    started_s: float | None  # for the first time
    ended_s: float | None
    waited_s: float
    ran_s: float
    starts: int
    evictions: int
    interruptions: int
    held_gpu_s: float
    used_gpu_s: float  # of that, as far as is known ...
    known_gpu_s: float  # ... and how much is known
    by_type: tuple[tuple[str, str, float], ...]  # GPU product, node pool, GPU seconds held


@dataclass(frozen=True, slots=True)
class Series:
    """Figures over time: columns [S, n] at the times `at_s` [S] of things by name; NaN: unknown."""

    at_s: Floats
    names: tuple[str, ...]
    columns: dict[str, Floats]
    step_s: int

    def of(self, name: str) -> dict[str, Floats]:
        """The columns of one thing [S]. Raises KeyError for one that is not there."""
        try:
            at = self.names.index(name)
        except ValueError:
            raise KeyError(name) from None
        return {column: values[:, at] for column, values in self.columns.items()}


@dataclass(frozen=True, slots=True)
class SpentRow:
    """Sums over a time; `key` is in the order that was asked for."""

    key: tuple[str, ...]
    gpu_s: float  # held
    used_gpu_s: float
    known_gpu_s: float
    waited_gpu_s: float  # asked for while waiting
    waited_s: float
    started: float
    ended: float
    failed: float
    evicted: float


@dataclass(frozen=True, slots=True)
class About:
    """The file itself. `notes`: what readers of the figures should know, newest first."""

    version: int
    bytes: int
    first_s: float | None
    last_s: float
    jobs: int
    events: int
    samples: int
    notes: tuple[tuple[float, str], ...]

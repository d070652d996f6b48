"""A history that is written down in the test: what `HistoryReader` would answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from kai_ray.history.job_event import JobEvent
from kai_ray.history.reader import HistoryReader
from kai_ray.history.rows import About, JobRow, Series, SpentRow
from tests.report.events import START_S

H100 = "NVIDIA-H100-80GB-HBM3"


@dataclass
class Written:
    rows: list[JobRow] = field(default_factory=list)
    lives: dict[str, list[JobEvent]] = field(default_factory=dict)
    uses: dict[str, Series] = field(default_factory=dict)
    spendings: list[SpentRow] = field(default_factory=list)
    cluster_: Series | None = None
    first_s: float | None = START_S
    asked_by: tuple[str, ...] = ()

    def as_reader(self) -> HistoryReader:
        return cast(HistoryReader, self)

    def find(self, namespace: str, name: str, kind: str = "") -> list[JobRow]:
        found = [r for r in self.rows if (r.namespace, r.name) == (namespace, name)]
        return [r for r in found if not kind or r.kind == kind]

    def events(self, uid: str) -> list[JobEvent]:
        return self.lives.get(uid, [])

    def gpu(self, uid: str, *_: Any) -> Series:
        return self.uses.get(uid) or Series(np.zeros(0), (), {}, 300)

    def spent(self, since_s: float, until_s: float, by: tuple[str, ...]) -> list[SpentRow]:
        self.asked_by = by
        return self.spendings

    def cluster(self, since_s: float, until_s: float, step_s: float) -> Series:
        return self.cluster_ or Series(np.zeros(0), (), {}, 300)

    def about(self) -> About:
        return About(1, 0, self.first_s, START_S + 1e5, 0, 0, 0, ())


_ROW = JobRow(
    uid="u1",
    namespace="default",
    name="train",
    kind="RayJob",
    api_version="ray.io/v1",
    queue="vision",
    user="ada",
    pool="",
    state="ended",
    outcome="Succeeded",
    reason="",
    message="",
    gpus=8.0,
    created_s=START_S,
    started_s=None,
    ended_s=None,
    waited_s=0.0,
    ran_s=0.0,
    starts=1,
    evictions=0,
    interruptions=0,
    held_gpu_s=0.0,
    used_gpu_s=0.0,
    known_gpu_s=0.0,
    by_type=(),
)


def row(**fields: Any) -> JobRow:
    return replace(_ROW, **fields)


def spent(*key: str, hours: float = 0.0, **fields: float) -> SpentRow:
    zero = dict.fromkeys(
        ("used_gpu_s", "known_gpu_s", "waited_gpu_s", "waited_s", "started", "ended"), 0.0
    )
    more = dict.fromkeys(("failed", "evicted"), 0.0)
    return SpentRow(key=key, gpu_s=hours * 3600, **{**zero, **more, **fields})


def series(step_s: int, since_s: float, **columns: list[float]) -> Series:
    """Of one thing."""
    count = len(next(iter(columns.values())))
    at_s = since_s + step_s * np.arange(count, dtype=np.float64)
    made = {name: np.array(values, dtype=np.float64)[:, None] for name, values in columns.items()}
    return Series(at_s, ("x",), made, step_s)

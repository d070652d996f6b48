"""What was: queues over time, and jobs that may be gone."""

from __future__ import annotations

from kai_ray.console.shapes.base import Shape


class QueuePast(Shape):
    """Columns of equal length, GPUs; null where nothing is known. `waiting` counts gangs."""

    at: list[str]
    quota: list[float | None]
    limit: list[float | None]
    fair_share: list[float | None]
    allocated: list[float | None]
    requested: list[float | None]
    waiting: list[float | None]


class QueuePasts(Shape):
    """By queue; `step` is in seconds."""

    step: int
    series: dict[str, QueuePast]
    problem: str = ""


class PastJob(Shape):
    """`state`: waiting, running, suspended or ended; `outcome` says how it ended."""

    uid: str
    namespace: str
    name: str
    kind: str
    queue: str
    user: str
    state: str
    outcome: str
    gpus: float
    created: str
    started_at: str
    ended_at: str
    waited_seconds: float
    ran_seconds: float
    evictions: int
    gpu_hours: float


class PastJobs(Shape):
    jobs: list[PastJob]
    problem: str = ""

"""A cluster just now, and what was decided lately."""

from __future__ import annotations

from msgspec import field

from kai_ray.console.shapes.base import Shape, State
from kai_ray.console.shapes.queues import JobCounts, Queue


class Gpus(Shape):
    """`utilization` is the mean of the GPUs that pods hold and that are known; null: of none.
    `idle` are those of them that do next to nothing."""

    total: float
    allocated: float
    free: float
    shared: int
    unhealthy: int
    utilization: float | None = None
    idle: int = 0


class NodeCounts(Shape):
    total: int
    ready: int
    not_ready: int
    cordoned: int
    quarantined: int
    bad_devices: int


class Waiting(Shape):
    jobs: int
    gpus: float
    by_reason: dict[str, int]
    oldest: str


class CyclePoint(Shape):
    number: int
    at: str
    seconds: float


class Cycle(CyclePoint):
    steps: dict[str, float]
    bound: int
    nominated: int
    evicted: int
    recent: list[CyclePoint]


class Overview(Shape):
    context: str
    at: str
    state: State
    gpus: Gpus | None
    nodes: NodeCounts | None
    jobs: JobCounts
    waiting: Waiting
    queues: list[Queue]
    cycle: Cycle | None
    problems: list[str] = field(default_factory=list)


class ClusterGlance(Shape):
    """One cluster among several; figures are null while it cannot be reached."""

    context: str
    home: bool
    state: str
    message: str
    gpus: Gpus | None = None
    nodes: NodeCounts | None = None
    jobs: JobCounts | None = None
    waiting: Waiting | None = None
    queues: list[Queue] = field(default_factory=list)


class Clusters(Shape):
    clusters: list[ClusterGlance]


class Placed(Shape):
    namespace: str
    kind: str
    job: str
    queue: str
    pods: int
    gpus: float
    nodes: list[str]


class EvictedJob(Shape):
    namespace: str
    kind: str
    job: str
    queue: str
    pods: int
    gpus: float
    rule: str
    for_whom: str
    message: str


class Decision(Shape):
    """One cycle that decided something; `hidden`: how much the viewer may not see."""

    id: int
    number: int
    pool: str
    at: str
    seconds: float
    bound: list[Placed]
    evicted: list[EvictedJob]
    nominated: list[Placed]
    waits: dict[str, int]
    hidden: int


class Decisions(Shape):
    note: str
    cycles: list[Decision]

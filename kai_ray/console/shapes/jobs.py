"""Jobs: the list, one of them, how it uses its GPUs."""

from __future__ import annotations

from kai_ray.console.shapes.base import Event, Shape


class Evicted(Shape):
    rule: str
    message: str
    since: str


class Job(Shape):
    """`position` counts from 1 among the waiting jobs of its queue; `nodes` is how many."""

    uid: str
    namespace: str
    name: str
    kind: str
    api_version: str
    queue: str
    user: str
    priority: int
    state: str
    reason: str
    message: str
    gpus: float
    running: int
    wanted: int
    created: str
    started_at: str
    ended_at: str  # empty while it has not ended
    nodes: int
    evicted: Evicted | None = None
    position: int | None = None


class Jobs(Shape):
    """`total` counts all that the viewer may see, `matched` those that fit the filters; facets
    count over all that the viewer may see."""

    at: str
    total: int
    matched: int
    offset: int
    jobs: list[Job]
    facets: dict[str, dict[str, int]]
    problem: str = ""


class Member(Shape):
    name: str
    node: str
    phase: str
    subgroup: str
    gpus: float
    started_at: str
    message: str


class Subgroup(Shape):
    name: str
    minimum: int
    pods: int
    running: int


class Gang(Shape):
    name: str
    queue: str
    minimum: int
    state: str
    reason: str
    message: str
    topology: str
    subgroups: list[Subgroup]
    members: list[Member]


class Moment(Shape):
    """One thing that happened to a job."""

    at: str
    what: str
    reason: str
    message: str
    nodes: list[str]
    gpus: float
    for_whom: str


class WaitsFor(Shape):
    victims: list[str]
    until: str


class JobDetail(Job, kw_only=True):
    """`history_from`: history, sight or events, where the timeline comes from."""

    labels: dict[str, str]
    gangs: list[Gang]
    timeline: list[Moment]
    history_from: str
    events: list[Event]
    waits_for: WaitsFor | None = None


class DeviceUse(Shape):
    pod: str
    node: str
    index: int
    uuid: str
    utilization: float | None
    used_mi_b: int | None
    memory_mi_b: int | None


class UseSample(Shape):
    at: str
    utilization: float | None
    used_mi_b: float | None
    gpus: float


class JobUse(Shape):
    """`now` null: nothing is known. `problem` says since when."""

    now: list[DeviceUse] | None
    series: list[UseSample]
    problem: str

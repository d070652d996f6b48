"""The JSON that the console speaks, as types; the OpenAPI document is made of them.

GPUs are numbers (0.5 is half a device). In a queue's amounts CPU is in millicores and memory in MB
(10^6 bytes), as in the Queue's own spec, and -1 is unlimited. Times are RFC 3339 in UTC, "" never.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

Short = Annotated[str, Meta(max_length=253)]


class Shape(Struct, rename="camel", gc=False):
    """Something that the console says."""


class Given(Struct, rename="camel", forbid_unknown_fields=True):
    """Something that the console is told."""


class Error(Shape):
    """Why a request was refused: `field` names what was wrong in it, `next` what would help."""

    code: int
    reason: str
    message: str
    field: str = ""
    next: str = ""


class Refusal(Shape):
    error: Error


class State(Shape):
    ok: bool
    message: str = ""


class Condition(Shape):
    type: str
    status: str
    reason: str
    message: str
    since: str


class Event(Shape):
    at: str
    type: str
    reason: str
    message: str
    count: int
    object: str


# ---------------------------------------------------------------------- session


class Context(Shape):
    """A cluster that the console looks at. `state`: ok, starting or down."""

    name: str
    home: bool
    state: str
    message: str = ""
    since: str = ""


class Session(Shape):
    """Who is looking, and what they may do. `namespaces` null: all of them."""

    mode: str
    version: str
    signed_in: bool
    sign_in: str
    user: str = ""
    home: str = ""
    contexts: list[Context] = field(default_factory=list)
    may_edit_queues: bool = False
    may_read_queues: bool = False
    may_read_nodes: bool = False
    namespaces: list[str] | None = None
    history: bool = False


# ---------------------------------------------------------------------- queues


class Amount(Shape):
    quota: float
    limit: float
    weight: float
    allocated: float
    requested: float
    fair_share: float | None
    borrowed: float
    pending: float


class Queue(Shape):
    """`waiting_jobs` counts those of the queues below as well; `problem`: why it starts nothing."""

    name: str
    display_name: str
    parent: str
    depth: int
    children: int
    priority: int
    state: str
    ready: bool
    problem: str
    created: str
    may_edit: bool
    resource_version: str
    gpu: Amount
    cpu: Amount
    memory: Amount
    waiting_jobs: int


class Queues(Shape):
    at: str
    editable: bool
    queues: list[Queue]
    problem: str = ""


class JobCounts(Shape):
    total: int
    by_state: dict[str, int]


class QueueDetail(Queue):
    policies: list[tuple[str, str]]
    conditions: list[Condition]
    events: list[Event]
    jobs: JobCounts
    labels: dict[str, str]
    annotations: dict[str, str]


Most = 2.0**62
Quantity = Annotated[float, Meta(ge=-1, le=Most)]


class AmountChange(Given):
    """What is not given stays. -1 is unlimited."""

    quota: Quantity | None = None
    limit: Quantity | None = None
    weight: Annotated[float, Meta(ge=0, le=Most)] | None = None


class QueueChange(Given):
    """What is not given stays. `resource_version`: refuse if the queue has changed since."""

    resource_version: Short = ""
    priority: Annotated[int, Meta(ge=-(2**31) + 1, le=2**31 - 1)] | None = None
    display_name: Short | None = None
    gpu: AmountChange | None = None
    cpu: AmountChange | None = None
    memory: AmountChange | None = None
    state: str | None = None


class NamedChange(QueueChange, kw_only=True):
    name: Short


class Preview(Given):
    changes: Annotated[list[NamedChange], Meta(min_length=1, max_length=200)]


class Share(Shape):
    quota: float
    limit: float
    weight: float
    fair_share: float
    allocated: float


class ShareChange(Shape):
    before: Share
    after: Share


class PriorityChange(Shape):
    before: int
    after: int


class QueueEffect(Shape):
    name: str
    gpu: ShareChange
    cpu: ShareChange
    memory: ShareChange
    priority: PriorityChange


class Problem(Shape):
    queue: str
    field: str
    message: str


class Previewed(Shape):
    """`effects` says in sentences what would be decided next."""

    valid: bool
    problems: list[Problem]
    queues: list[QueueEffect]
    effects: list[str]


# ---------------------------------------------------------------------- nodes

#: [queue index or -1, used 0..1, job index or -1, flags, utilisation or null, parts]; see Nodes.
Card = tuple[int, float, int, int, float | None, list[tuple[int, float, int]]]


class Node(Shape):
    """`domains` are groups of GPU indices that are linked, or in one NUMA cell."""

    name: str
    gpus: float
    allocated: float
    free: float
    pods: int
    state: str
    model: str
    pool: str
    rack: str
    zone: str
    memory_mi_b: int
    cards: list[Card]
    domains: list[list[int]]
    problem: str = ""


class Rack(Shape):
    name: str
    nodes: list[str]


class Nodes(Shape):
    """Cards name queues and jobs by their place in these lists. Flags of a card: 1 shared, 2 bad,
    4 has MIG instances. A job that the viewer may not see is -1."""

    at: str
    queues: list[str]
    jobs: list[str]
    nodes: list[Node]
    racks: list[Rack]
    problems: list[str]


class NodePod(Shape):
    namespace: str
    name: str
    job: str
    queue: str
    gpus: float
    phase: str
    since: str


class Device(Shape):
    index: int
    uuid: str
    model: str
    memory_mi_b: int | None
    used_mi_b: int | None
    utilization: float | None
    healthy: bool
    problem: str
    numa_node: int | None
    links: list[int]


class NodeDetail(Node, kw_only=True):
    """`hidden`: pods that the viewer may not see."""

    cpu: str
    memory: str
    slots: int
    created: str
    labels: dict[str, str]
    annotations: dict[str, str]
    taints: list[str]
    conditions: list[Condition]
    running: list[NodePod]
    hidden: int
    devices: list[Device] | None
    observed_at: str
    queues: list[str]
    jobs: list[str]
    events: list[Event]


# ---------------------------------------------------------------------- jobs


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


# ---------------------------------------------------------------------- overview, decisions


class Gpus(Shape):
    total: float
    allocated: float
    free: float
    shared: int
    unhealthy: int


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


Anything = dict[str, Any]

"""Nodes and their GPUs."""

from __future__ import annotations

from kai_ray.console.shapes.base import Condition, Event, Shape

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

"""Random clusters: nodes, a tree of queues, jobs that come, and what befalls them. Seeded."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.core.world import Node, Pod, Queue

_KINDS = ((50, True), (50, True), (60, True), (75, True), (100, False), (125, False))


@dataclass
class Work:
    """A job of equal pods. `lasts` = cycles that a pod runs; 0 = until the end."""

    name: str
    queue: str
    pods: int
    minimum: int
    gpus: int
    priority: int
    preemptible: bool
    arrives: int
    lasts: int = 0
    core_safe: bool = False
    budget: int = -1  # pods that may be missing at once; -1 = any


@dataclass
class Setup:
    """All that a run starts from and that will happen to it."""

    nodes: list[Node]
    queues: list[Queue]
    works: list[Work]
    busy: int  # cycles in which things happen; after them demand stands still
    events: dict[int, list[str]] = field(default_factory=dict)
    min_runtime_s: float = 0.0
    checkpoints: bool = False
    leaving: int = 1  # cycles that an evicted pod takes to leave


def setup(seed: int) -> Setup:
    """The cluster of a seed."""
    random = Random(seed)
    nodes = [
        Node(f"n{i}", gpus=random.choice((1, 2, 4, 4, 8)), cpu=64_000)
        for i in range(random.randint(1, 6))
    ]
    whole = sum(node.gpus for node in nodes)
    queues = _queues(random, whole)
    parents = {queue.parent for queue in queues}
    leaves = [queue.name for queue in queues if queue.name not in parents]
    busy = random.choice((4, 8, 8, 12))
    works = [
        _work(random, f"j{i:02d}", random.choice(leaves), busy)
        for i in range(random.randint(4, 18))
    ]
    found = Setup(nodes, queues, works, busy)
    found.leaving = random.choice((1, 1, 2, 3))
    found.min_runtime_s = random.choice((0.0, 0.0, 30.0))
    found.checkpoints = random.random() < 0.3
    for cycle in range(busy):
        if random.random() < 0.25:
            kind = random.choice(("cordon", "uncordon", "fail", "quota"))
            found.events.setdefault(cycle, []).append(f"{kind} {random.randrange(100)}")
    return found


def _queues(random: Random, whole: int) -> list[Queue]:
    """One to eight leaves under up to two levels of parents; quotas may exceed the cluster."""
    tops = [f"t{i}" for i in range(random.randint(1, 3))]
    queues = [Queue(name, gpu_quota=_quota(random, whole)) for name in tops]
    above = tops
    for level in range(random.randint(0, 2)):
        below = [
            Queue(
                f"{'uv'[level]}{i}",
                parent=random.choice(above),
                gpu_quota=_quota(random, whole),
                gpu_limit=random.choice((-1.0, -1.0, -1.0, float(random.randint(1, whole)))),
                weight=float(random.choice((0, 1, 1, 2))),
                priority=random.choice((100, 100, 200)),
            )
            for i in range(random.randint(1, 4))
        ]
        queues += below
        above = [queue.name for queue in below]
    return queues


def _quota(random: Random, whole: int) -> float:
    return random.choice((-1.0, 0.0, float(random.randint(0, whole)), float(random.randint(0, 4))))


def _work(random: Random, name: str, queue: str, busy: int) -> Work:
    pods = random.choice((1, 1, 2, 3, 4, 6))
    priority, preemptible = random.choice(_KINDS)
    return Work(
        name=name,
        queue=queue,
        pods=pods,
        minimum=random.randint(1, pods),
        gpus=random.choice((1, 1, 1, 2, 4)),
        priority=priority,
        preemptible=preemptible,
        arrives=random.choice((0, 0, random.randint(0, busy))),
        lasts=random.choice((0, 0, 0, 0, 0, 3, 6)),
        core_safe=random.random() < 0.1,
        budget=random.choice((-1, -1, -1, -1, 0, 1)),
    )


def pod_of(work: Work) -> Pod:
    """A waiting pod of a job."""
    return Pod(gpus=work.gpus)
